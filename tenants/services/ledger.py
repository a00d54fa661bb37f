"""Writes of the ledger: insert what ended, in bulk, once per call id; delete what is too old.

A call that was inserted before is left as it is, with its attempts and its charge, so that a
journal may be replayed from any point. Credit is charged, and the keys' last use noted, in the
transaction of the rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime

from gateway.core.records import CallRecord
from tenants.bulk_rows import Target, insert_new
from tenants.credit_flow import Charge
from tenants.ledger_rows import (
    ATTEMPT_COLUMNS,
    CALL_COLUMNS,
    arrived_at,
    attempt_row,
    call_rows,
)
from tenants.models import LedgerAttempt, LedgerCall
from tenants.services import credit, keys
from tenants.services.transactions import transactional

CALLS = Target(LedgerCall, ("arrived_at", *CALL_COLUMNS), ("call_id",))
ATTEMPTS = Target(LedgerAttempt, ("call_id", *ATTEMPT_COLUMNS), ("call_id", "number"))
ROWS_PER_PURGE = 5_000


@transactional
def insert_calls(records: Sequence[CallRecord]) -> int:
    """How many were new."""
    inserted = set(insert_new(CALLS, call_rows(records)))
    by_id = {record.call_id: record for record in reversed(records)}
    new = [by_id[call_id] for call_id in by_id if call_id in inserted]
    insert_new(ATTEMPTS, (attempt_row(r.call_id, attempt) for r in new for attempt in r.attempts))
    _charge(new)
    _note_used(new)
    return len(new)


@transactional
def purge(*, before: datetime) -> int:
    """Deletes at most 5,000 calls that arrived earlier; repeat until it returns 0."""
    ids = list(
        LedgerCall.objects.filter(arrived_at__lt=before)
        .order_by("arrived_at")
        .values_list("pk", flat=True)[:ROWS_PER_PURGE]
    )
    LedgerAttempt.objects.filter(call__in=ids).delete()
    return LedgerCall.objects.filter(pk__in=ids).delete()[0]


def _charge(records: Sequence[CallRecord]) -> None:
    charges: defaultdict[str, list[Charge]] = defaultdict(list)
    for record in records:
        if record.charge_microcredits:
            charges[record.tenant].append(Charge(arrived_at(record), record.charge_microcredits))
    if charges:
        credit.charge(charges=charges)


def _note_used(records: Sequence[CallRecord]) -> None:
    used: dict[str, datetime] = {}
    for record in records:
        if record.key_id:
            at = arrived_at(record)
            used[record.key_id] = max(at, used.get(record.key_id, at))
    if used:
        keys.note_used(used=used)
