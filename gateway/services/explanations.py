"""Why calls went where they went: kept in bulk beside the ledger, for a week.

Which calls are kept is decided where they end (``pipeline.call_record``): all that were refused,
failed or retried, one of a hundred others. Idempotent by call id, as the ledger is.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec
from django.utils import timezone

from gateway.core.records import CallRecord
from gateway.models import CallExplanation

KEPT = timedelta(days=7)
ROWS_PER_PURGE = 5_000


def keep(records: Sequence[CallRecord]) -> None:
    rows = [
        CallExplanation(
            call_id=record.call_id,
            at=datetime.fromtimestamp(record.arrived_at, UTC),
            told=msgspec.to_builtins(record.story),
        )
        for record in records
        if record.story is not None
    ]
    if rows:
        CallExplanation.objects.bulk_create(rows, ignore_conflicts=True)


def purge(*, now: datetime | None = None) -> int:
    """Deletes at most 5,000 that are too old; repeat until it returns 0."""
    before = (now or timezone.now()) - KEPT
    old = CallExplanation.objects.filter(at__lt=before).order_by("at")
    ids = list(old.values_list("pk", flat=True)[:ROWS_PER_PURGE])
    return CallExplanation.objects.filter(pk__in=ids).delete()[0]
