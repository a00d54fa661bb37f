"""Bodies and answers of ``/v1/files`` and ``/v1/batches``, which are OpenAI's. Unix seconds."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from ninja import Schema
from pydantic import ConfigDict, Field

from workers.models import Batch, Status, StoredFile

SHORTEST_LIFE_S, LONGEST_LIFE_S = 3600, 2_592_000
MetadataKey = Annotated[str, Field(max_length=64)]
MetadataValue = Annotated[str, Field(max_length=512)]


class ErrorShown(Schema):
    message: str
    type: str
    param: str | None
    code: str | None


class Problem(Schema):
    """Why nothing was done."""

    error: ErrorShown


class FileShown(Schema):
    id: str
    object: Literal["file"] = "file"
    bytes: int
    created_at: int
    expires_at: int | None
    filename: str
    purpose: str
    status: str = "processed"
    status_details: str | None = None


class FileList(Schema):
    object: Literal["list"] = "list"
    data: list[FileShown]
    first_id: str | None
    last_id: str | None
    has_more: bool


class FileDeleted(Schema):
    id: str
    object: Literal["file"] = "file"
    deleted: bool = True


class ExpiresAfter(Schema):
    anchor: Literal["created_at"]
    seconds: Annotated[int, Field(ge=SHORTEST_LIFE_S, le=LONGEST_LIFE_S)]


class BatchBody(Schema):
    model_config = ConfigDict(extra="ignore")

    input_file_id: Annotated[str, Field(max_length=64)]
    endpoint: str
    completion_window: Literal["24h"]
    metadata: Annotated[dict[MetadataKey, MetadataValue], Field(max_length=16)] | None = None
    output_expires_after: ExpiresAfter | None = None


class LineError(Schema):
    code: str
    line: int | None
    message: str
    param: str | None


class LineErrors(Schema):
    object: Literal["list"] = "list"
    data: list[LineError]


class RequestCounts(Schema):
    total: int
    completed: int
    failed: int


class BatchShown(Schema):
    id: str
    object: Literal["batch"] = "batch"
    endpoint: str
    model: str | None
    errors: LineErrors | None
    input_file_id: str
    completion_window: str
    status: str
    output_file_id: str | None
    error_file_id: str | None
    created_at: int
    in_progress_at: int | None
    expires_at: int | None
    finalizing_at: int | None
    completed_at: int | None
    failed_at: int | None
    expired_at: int | None
    cancelling_at: int | None
    cancelled_at: int | None
    request_counts: RequestCounts
    usage: dict[str, Any]
    metadata: dict[str, str] | None


class BatchList(Schema):
    object: Literal["list"] = "list"
    data: list[BatchShown]
    first_id: str | None
    last_id: str | None
    has_more: bool


def file_shown(row: StoredFile) -> FileShown:
    return FileShown(
        id=row.file_id,
        bytes=row.size_bytes,
        created_at=int(row.created_at.timestamp()),
        expires_at=int(row.expires_at.timestamp()),
        filename=row.filename,
        purpose=row.purpose,
    )


def batch_shown(row: Batch) -> BatchShown:
    def ended(status: Status) -> int | None:
        return _seconds(row.finished_at) if row.status == status else None

    return BatchShown(
        id=row.batch_id,
        endpoint=row.endpoint,
        model=row.model or None,
        errors=LineErrors(data=row.errors) if row.errors else None,
        input_file_id=row.input_file_id,
        completion_window=row.completion_window,
        status=row.status,
        output_file_id=row.output_file_id or None,
        error_file_id=row.error_file_id or None,
        created_at=int(row.created_at.timestamp()),
        in_progress_at=_seconds(row.in_progress_at),
        expires_at=_seconds(row.expires_at),
        finalizing_at=_seconds(row.finalizing_at),
        completed_at=ended(Status.COMPLETED),
        failed_at=ended(Status.FAILED),
        expired_at=ended(Status.EXPIRED),
        cancelling_at=_seconds(row.cancelling_at),
        cancelled_at=ended(Status.CANCELLED),
        request_counts=RequestCounts(total=row.total, completed=row.completed, failed=row.failed),
        usage=_usage(row),
        metadata=row.metadata,
    )


def _usage(row: Batch) -> dict[str, Any]:
    return {
        "input_tokens": row.input_tokens,
        "input_tokens_details": {"cached_tokens": row.cached_tokens},
        "output_tokens": row.output_tokens,
        "output_tokens_details": {"reasoning_tokens": row.reasoning_tokens},
        "total_tokens": row.input_tokens + row.output_tokens,
    }


def _seconds(moment: datetime | None) -> int | None:
    return None if moment is None else int(moment.timestamp())
