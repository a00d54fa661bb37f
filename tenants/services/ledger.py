"""Writes of the ledger: insert what ended, in bulk, once per call id; delete what is too old.

A call that was inserted before is left as it is, with its attempts and its charge, so that a
journal may be replayed from any point. Credit is charged, and the keys' last use noted, in the
transaction of the rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime

from django.db import connection

from gateway.core.records import CallRecord
from tenants.credit_flow import Charge
from tenants.ledger_rows import (
    ATTEMPT_COLUMNS,
    CALL_COLUMNS,
    arrived_at,
    attempt_row,
    call_row,
)
from tenants.models import LedgerAttempt, LedgerCall
from tenants.services import credit, keys
from tenants.services.transactions import transactional

ROWS_PER_STATEMENT = 400  # × 40 columns stays below SQLite's 32,766 parameters
ROWS_PER_PURGE = 5_000


@transactional
def insert_calls(records: Sequence[CallRecord]) -> int:
    """How many were new."""
    new: list[CallRecord] = []
    for part in _parts(records):
        ids = set(_insert_calls(part))
        for record in part:
            if record.call_id in ids:
                ids.remove(record.call_id)
                new.append(record)
    _insert_attempts(new)
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


def _insert_calls(part: Sequence[CallRecord]) -> list[str]:
    """The ids that were not there yet."""
    columns = ("arrived_at", *CALL_COLUMNS)
    sql = _insert_sql(LedgerCall._meta.db_table, columns, len(part), "call_id")
    parameters = [value for record in part for value in call_row(record)]
    with connection.cursor() as cursor:
        cursor.execute(f"{sql} RETURNING call_id", parameters)
        return [str(row[0]) for row in cursor.fetchall()]


def _insert_attempts(records: Sequence[CallRecord]) -> None:
    rows = [attempt_row(r.call_id, attempt) for r in records for attempt in r.attempts]
    columns = ("call_id", *ATTEMPT_COLUMNS)
    for start in range(0, len(rows), ROWS_PER_STATEMENT):
        part = rows[start : start + ROWS_PER_STATEMENT]
        table = LedgerAttempt._meta.db_table
        sql = _insert_sql(table, columns, len(part), "call_id, number")
        with connection.cursor() as cursor:
            cursor.execute(sql, [value for row in part for value in row])


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


def _insert_sql(table: str, columns: tuple[str, ...], rows: int, unique: str) -> str:
    """Names come from the models, values travel as parameters."""
    names = ", ".join(connection.ops.quote_name(column) for column in columns)
    one = f"({', '.join(['%s'] * len(columns))})"
    values = ", ".join([one] * rows)
    return f"INSERT INTO {table} ({names}) VALUES {values} ON CONFLICT ({unique}) DO NOTHING"


def _parts(records: Sequence[CallRecord]) -> Iterator[Sequence[CallRecord]]:
    for start in range(0, len(records), ROWS_PER_STATEMENT):
        yield records[start : start + ROWS_PER_STATEMENT]
