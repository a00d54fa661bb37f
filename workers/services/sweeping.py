"""What does nobody work at? The database is the truth; messages may be lost with their broker.

Every few seconds each unfinished batch is looked at, and gets the message that it needs: one that
has been validating unclaimed, one whose lines wait while fewer workers than may are at it, one that
is to be closed. Messages expire before they pile up.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Q

from workers import messages
from workers.models import UNFINISHED, Batch, BatchLine, LineState, Status
from workers.services import batches, lines
from workers.storage import Storage

AGAIN_S = 5.0  # before a message is sent again for the same batch
KEPT_LINES_DAYS = 30

Send = Callable[[str, str], None]


def sweep(*, now: datetime, send: Send = messages.send) -> int:
    """How many messages were sent."""
    sent = 0
    for batch in Batch.objects.filter(status__in=UNFINISHED):
        for task in _needed(batch, now):
            send(task, batch.batch_id)
            sent += 1
    return sent


def _needed(batch: Batch, now: datetime) -> list[str]:
    """Messages for one batch."""
    if batch.status == Status.IN_PROGRESS:
        lines.take_over_expired(batch_id=batch.batch_id, now=now)
        if not batches.begin_closing(batch_id=batch.batch_id, now=now):
            return [messages.RUN] * _missing_runners(batch, now)
        return [messages.CLOSE]
    if batch.busy_until is not None and batch.busy_until >= now:
        return []
    if batch.status == Status.VALIDATING:
        return [messages.VALIDATE] if _not_sent_lately(batch, now) else []
    return [messages.CLOSE]


def _missing_runners(batch: Batch, now: datetime) -> int:
    if batch.paused_until is not None and batch.paused_until > now:
        return 0
    ready = Q(not_before=None) | Q(not_before__lte=now)
    rows = BatchLine.objects.filter(ready, batch_id=batch.batch_id, state=LineState.WAITING)
    if not rows.exists():
        return 0
    at_it = len(lines.workers_at(batch_id=batch.batch_id, now=now))
    missing = max(0, settings.FAIRWAY_WORKERS.runners - at_it)
    return missing if missing and _not_sent_lately(batch, now) else 0


def _not_sent_lately(batch: Batch, now: datetime) -> bool:
    """And notes that it is sent now."""
    before = now - timedelta(seconds=AGAIN_S - 1)
    rows = Batch.objects.filter(Q(sent_at=None) | Q(sent_at__lte=before), pk=batch.batch_id)
    return bool(rows.update(sent_at=now))


def forget_old(*, storage: Storage, now: datetime) -> int:
    """Deletes batches, with their lines, that ended long ago, and what nobody owns on disk."""
    limit = now - timedelta(days=KEPT_LINES_DAYS)
    old = list(Batch.objects.filter(finished_at__lt=limit).values_list("pk", flat=True)[:20])
    for batch_id in old:
        storage.forget_results(batch_id)
        Batch.objects.filter(pk=batch_id).delete()
    return len(old)
