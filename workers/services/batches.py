"""Writes of batches: create, cancel, claim for validation or closing, pause.

Every change of status is a compare-and-set: of two that try, one does.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q

from tenants.models import Organization
from tenants.services.transactions import transactional
from workers import messages, selectors
from workers.errors import conflict, no_room, wrong
from workers.ids import new_id
from workers.models import Batch, BatchLine, LineState, Purpose, Status

CLAIM_S = 90.0
CANCELLABLE = (Status.VALIDATING, Status.IN_PROGRESS)


@dataclass(frozen=True, slots=True)
class BatchTerms:
    tenant: str
    key_id: str
    input_file_id: str
    endpoint: str
    completion_window: str
    metadata: dict[str, str] | None = None
    output_seconds: int | None = None


@transactional
def create(*, terms: BatchTerms, now: datetime) -> Batch:
    """Raises Rejected: the file does not exist or is not for batches, or too many batches run."""
    Organization.objects.select_for_update().get(slug=terms.tenant)
    most = settings.FAIRWAY_WORKERS.active_batches
    if selectors.unfinished_batches_of(terms.tenant) >= most:
        raise no_room(f"At most {most} batches may be unfinished at once.")
    file = selectors.file_of(terms.tenant, terms.input_file_id)
    if file.purpose != Purpose.BATCH:
        raise wrong("The input file must have been uploaded with purpose batch.", "input_file_id")
    batch = Batch.objects.create(
        batch_id=new_id("batch_"),
        tenant=terms.tenant,
        key_id=terms.key_id,
        input_file_id=terms.input_file_id,
        endpoint=terms.endpoint,
        completion_window=terms.completion_window,
        metadata=terms.metadata,
        output_seconds=terms.output_seconds,
        created_at=now,
        expires_at=now + timedelta(seconds=settings.FAIRWAY_WORKERS.window_s),
        sent_at=now,
    )
    transaction.on_commit(lambda: messages.send(messages.VALIDATE, batch.batch_id))
    return batch


@transactional
def cancel(*, tenant: str, batch_id: str, now: datetime) -> Batch:
    """No line is started from here on. Raises Rejected: 404, or 409 once it is closing."""
    batch = selectors.batch_of(tenant, batch_id)
    changed = Batch.objects.filter(pk=batch_id, status__in=CANCELLABLE).update(
        status=Status.CANCELLING, closing_as=Status.CANCELLED, cancelling_at=now, busy_until=None
    )
    batch.refresh_from_db()
    if not changed and batch.status != Status.CANCELLING:
        raise conflict(f"The batch can no longer be cancelled: it is {batch.status}.")
    transaction.on_commit(lambda: messages.send(messages.CLOSE, batch_id))
    return batch


def claim(*, batch_id: str, statuses: tuple[Status, ...], now: datetime) -> Batch | None:
    """None where another works at it or nothing is to be done."""
    free = Q(busy_until=None) | Q(busy_until__lt=now)
    until = now + timedelta(seconds=CLAIM_S)
    rows = Batch.objects.filter(free, pk=batch_id, status__in=statuses)
    return Batch.objects.get(pk=batch_id) if rows.update(busy_until=until) else None


def pause(*, batch_id: str, until: datetime) -> None:
    """The gateway has no capacity for this batch before then."""
    later = Q(paused_until=None) | Q(paused_until__lt=until)
    Batch.objects.filter(later, pk=batch_id).update(paused_until=until)


def begin_closing(*, batch_id: str, now: datetime) -> bool:
    """Whether it is to be closed: every line is settled, the window is over, or it was cancelled
    and nothing runs any more."""
    rows = Batch.objects.filter(pk=batch_id, status=Status.IN_PROGRESS)
    settled = rows.filter(total=F("completed") + F("failed"))
    closing = {"status": Status.FINALIZING, "finalizing_at": now, "busy_until": None}
    if settled.update(closing_as=Status.COMPLETED, **closing):
        return True
    over = rows.filter(expires_at__lte=now)
    if over.update(closing_as=Status.EXPIRED, **closing):
        return True
    cancelled = Batch.objects.filter(pk=batch_id, status=Status.CANCELLING)
    return cancelled.exists() and not has_running_lines(batch_id=batch_id, now=now)


def has_running_lines(*, batch_id: str, now: datetime) -> bool:
    rows = BatchLine.objects.filter(batch_id=batch_id, state=LineState.LEASED)
    return rows.filter(lease_until__gte=now).exists()
