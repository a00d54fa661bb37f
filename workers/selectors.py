"""Reads of files and batches. What a tenant asks for is looked up within that tenant alone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

from django.db.models import Model, Q, QuerySet, Sum
from django.utils import timezone

from gateway.core.events import BatchSecond
from workers.errors import no_such, wrong
from workers.models import UNFINISHED, Batch, Status, StoredFile

SHOWN_AFTER_END_S = 10.0
SHOWN_BATCHES = 100

Row = TypeVar("Row", bound=Model)


@dataclass(frozen=True, slots=True)
class Wanted:
    """One page of a list: at most ``limit`` rows that come after the one named ``after``."""

    limit: int
    after: str = ""
    ascending: bool = False


@dataclass(frozen=True, slots=True)
class Room:
    """What a tenant has stored."""

    files: int
    size_bytes: int


def file_of(tenant: str, file_id: str) -> StoredFile:
    """Raises Rejected (404)."""
    row = StoredFile.objects.filter(tenant=tenant, pk=file_id, expires_at__gt=timezone.now())
    found = row.first()
    if found is None:
        raise no_such("File", file_id)
    return found


def files_of(tenant: str, wanted: Wanted, purpose: str = "") -> tuple[list[StoredFile], bool]:
    """A page, and whether there is more."""
    rows = StoredFile.objects.filter(tenant=tenant, expires_at__gt=timezone.now())
    return _page(rows.filter(purpose=purpose) if purpose else rows, wanted, "file_id")


def batch_of(tenant: str, batch_id: str) -> Batch:
    """Raises Rejected (404)."""
    found = Batch.objects.filter(tenant=tenant, pk=batch_id).first()
    if found is None:
        raise no_such("Batch", batch_id)
    return found


def running_batch(batch_id: str) -> Batch | None:
    """The batch, if its lines may run."""
    return Batch.objects.filter(pk=batch_id, status=Status.IN_PROGRESS).first()


def batches_of(tenant: str, wanted: Wanted) -> tuple[list[Batch], bool]:
    return _page(Batch.objects.filter(tenant=tenant), wanted, "batch_id")


def recent_batches(tenant: str | None, most: int) -> list[Batch]:
    """Running and ended, newest first; of every tenant where none is given."""
    rows = Batch.objects.all() if tenant is None else Batch.objects.filter(tenant=tenant)
    return list(rows.order_by("-created_at", "-batch_id")[:most])


def room_of(tenant: str) -> Room:
    rows = StoredFile.objects.filter(tenant=tenant)
    return Room(rows.count(), rows.aggregate(size=Sum("size_bytes"))["size"] or 0)


def unfinished_batches_of(tenant: str) -> int:
    return Batch.objects.filter(tenant=tenant, status__in=UNFINISHED).count()


def is_being_read(file_id: str) -> bool:
    return Batch.objects.filter(input_file_id=file_id, status__in=UNFINISHED).exists()


def file_ids() -> list[str]:
    return list(StoredFile.objects.values_list("file_id", flat=True))


def progress(now: datetime) -> tuple[BatchSecond, ...]:
    """For live pages: batches that are not finished, or finished within the last ten seconds."""
    lately = Q(finished_at__gt=now - timedelta(seconds=SHOWN_AFTER_END_S))
    rows = Batch.objects.filter(Q(status__in=UNFINISHED) | lately)
    return tuple(
        BatchSecond(row.batch_id, row.tenant, row.status, row.total, row.completed, row.failed)
        for row in rows[:SHOWN_BATCHES]
    )


def _page(rows: QuerySet[Row], wanted: Wanted, name: str) -> tuple[list[Row], bool]:
    """Ordered by creation; the name breaks ties, so that no row is skipped or repeated."""
    if wanted.after:
        last = rows.filter(pk=wanted.after).values_list("created_at", name).first()
        if last is None:
            raise wrong(f"There is no object {wanted.after[:60]!r} to continue after.", "after")
        side = "gt" if wanted.ascending else "lt"
        tie = Q(created_at=last[0], **{f"{name}__{side}": last[1]})
        rows = rows.filter(Q(**{f"created_at__{side}": last[0]}) | tie)
    sign = "" if wanted.ascending else "-"
    ordered = rows.order_by(f"{sign}created_at", f"{sign}{name}")
    page = list(ordered[: wanted.limit + 1])
    return page[: wanted.limit], len(page) > wanted.limit
