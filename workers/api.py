"""``/v1/files`` and ``/v1/batches``, except upload and download, whose bytes do not pass here.

Shapes of answers and errors are OpenAI's. Everything is looked up within the caller's own tenant.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import NinjaAPI, Query, Router
from ninja.errors import HttpError, ValidationError
from ninja.security import HttpBearer
from pydantic import Field

from gateway.auth import Principal
from gateway.core.errors import CallError, Rejected
from gateway.core.reasons import Reason
from workers import schemas, selectors
from workers.access import principal_of
from workers.errors import wrong
from workers.refusals import refusal
from workers.selectors import Wanted
from workers.services import batches, files
from workers.services.batches import BatchTerms
from workers.storage import Storage
from workers.validation import ENDPOINTS

MOST_SHOWN = 1000
Order = Literal["asc", "desc"]
REFUSALS = frozenset({400, 401, 403, 404, 409, 415, 429})


class BatchKey(HttpBearer):
    """An API key of scope ``batch``. Its result is at ``request.auth``."""

    def __call__(self, request: HttpRequest) -> Principal:
        headers = {name.lower(): value for name, value in request.headers.items()}
        fairway = getattr(request, "scope", {}).get("fairway")
        return principal_of(headers, request.META.get("REMOTE_ADDR", ""), fairway)

    def authenticate(self, request: HttpRequest, token: str) -> Principal:
        raise AssertionError("judged by its headers")


router = Router(auth=BatchKey(), tags=["files and batches"])
FileLimit = Annotated[int, Query(MOST_SHOWN, ge=1, le=10_000)]
BatchLimit = Annotated[int, Query(20, ge=1, le=100)]
After = Annotated[str, Field(max_length=64)]


def answers(shown: object) -> dict[object, object]:
    return {200: shown, REFUSALS: schemas.Problem}


@router.get("/files", response=answers(schemas.FileList))
def list_files(
    request: HttpRequest,
    limit: FileLimit,
    after: After = "",
    order: Order = "desc",
    purpose: str = "",
) -> schemas.FileList:
    """At most 1,000 at once."""
    wanted = Wanted(min(limit, MOST_SHOWN), after, ascending=order == "asc")
    rows, more = selectors.files_of(_tenant(request), wanted, purpose)
    ids = [row.file_id for row in rows]
    return schemas.FileList(
        data=[schemas.file_shown(row) for row in rows],
        first_id=ids[0] if ids else None,
        last_id=ids[-1] if ids else None,
        has_more=more,
    )


@router.get("/files/{file_id}", response=answers(schemas.FileShown))
def show_file(request: HttpRequest, file_id: str) -> schemas.FileShown:
    return schemas.file_shown(selectors.file_of(_tenant(request), file_id))


@router.delete("/files/{file_id}", response=answers(schemas.FileDeleted))
def delete_file(request: HttpRequest, file_id: str) -> schemas.FileDeleted:
    """Refused (409) while an unfinished batch reads it."""
    storage = Storage(settings.FAIRWAY_WORKERS.files_dir)
    files.delete(tenant=_tenant(request), file_id=file_id, storage=storage)
    return schemas.FileDeleted(id=file_id)


@router.post("/batches", response=answers(schemas.BatchShown))
def create_batch(request: HttpRequest, body: schemas.BatchBody) -> schemas.BatchShown:
    """Validated in the background; lines then run at class batch."""
    if request.content_type != "application/json":
        raise Rejected(Reason.UNSUPPORTED_ENCODING, "Content-Type must be application/json.")
    if body.endpoint not in ENDPOINTS:
        raise wrong(f"endpoint must be one of: {', '.join(ENDPOINTS)}.", "endpoint")
    expiry = body.output_expires_after
    principal = _principal(request)
    terms = BatchTerms(
        tenant=principal.tenant.slug,
        key_id=principal.key.key_id,
        input_file_id=body.input_file_id,
        endpoint=body.endpoint,
        completion_window=body.completion_window,
        metadata=body.metadata,
        output_seconds=expiry.seconds if expiry else None,
    )
    return schemas.batch_shown(batches.create(terms=terms, now=timezone.now()))


@router.get("/batches", response=answers(schemas.BatchList))
def list_batches(request: HttpRequest, limit: BatchLimit, after: After = "") -> schemas.BatchList:
    rows, more = selectors.batches_of(_tenant(request), Wanted(limit, after))
    ids = [row.batch_id for row in rows]
    return schemas.BatchList(
        data=[schemas.batch_shown(row) for row in rows],
        first_id=ids[0] if ids else None,
        last_id=ids[-1] if ids else None,
        has_more=more,
    )


@router.get("/batches/{batch_id}", response=answers(schemas.BatchShown))
def show_batch(request: HttpRequest, batch_id: str) -> schemas.BatchShown:
    return schemas.batch_shown(selectors.batch_of(_tenant(request), batch_id))


@router.post("/batches/{batch_id}/cancel", response=answers(schemas.BatchShown))
def cancel_batch(request: HttpRequest, batch_id: str) -> schemas.BatchShown:
    """No further line is started; lines in flight finish."""
    row = batches.cancel(tenant=_tenant(request), batch_id=batch_id, now=timezone.now())
    return schemas.batch_shown(row)


def tell_refusals(api: NinjaAPI) -> None:
    """Makes ``api`` tell what is refused below ``/v1/`` in OpenAI's shape."""
    others = api._exception_handlers[ValidationError]
    elsewhere = api._exception_handlers[HttpError]

    def refused(request: HttpRequest, error: Any) -> HttpResponse:
        return _refused(error)

    def invalid(request: HttpRequest, error: Any) -> HttpResponse:
        if request.path.startswith("/v1/"):
            return _refused(_first_mistake(error))
        told: HttpResponse = others(request, error)
        return told

    def unread(request: HttpRequest, error: Any) -> HttpResponse:
        """The body is no JSON."""
        if request.path.startswith("/v1/"):
            return _refused(wrong(f"{error}."))
        told: HttpResponse = elsewhere(request, error)
        return told

    api.add_exception_handler(CallError, refused)
    api.add_exception_handler(HttpError, unread)
    api.add_exception_handler(ValidationError, invalid)


def _refused(error: CallError) -> HttpResponse:
    told = refusal(error)
    return HttpResponse(
        told.body, status=told.status, headers=told.headers, content_type="application/json"
    )


def _first_mistake(error: ValidationError) -> Rejected:
    """Names the field; never repeats the value."""
    first = error.errors[0]
    places = [str(part) for part in first.get("loc", ()) if part not in ("body", "query", "path")]
    param = ".".join(places[1:] if places[:1] == ["body"] else places) or None
    return wrong(f"{first.get('msg', 'invalid')}.", param)


def _principal(request: HttpRequest) -> Principal:
    principal: object = getattr(request, "auth", None)
    assert isinstance(principal, Principal)
    return principal


def _tenant(request: HttpRequest) -> str:
    return _principal(request).tenant.slug
