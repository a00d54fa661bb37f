"""How does a call record become a row? Columns by name, text that any database takes, numbers kept.

Text is what clients and replicas sent: it is cut to its column, and NUL and lone surrogates, which
PostgreSQL refuses, are replaced, so that one strange call never holds up the ledger.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any

from django.db import connection
from django.db.models import CharField

from gateway.core.records import AttemptRecord, CallRecord
from tenants.models import LedgerAttempt, LedgerCall

KLASS = "klass"
NOT_HERE = ("attempts", "arrived_at", "predicted_cached_tokens", "story")
CALL_COLUMNS = tuple(name for name in CallRecord.__struct_fields__ if name not in NOT_HERE)
ATTEMPT_COLUMNS = AttemptRecord.__struct_fields__
_CALL_WIDTHS = {f.name: f.max_length for f in LedgerCall._meta.fields if isinstance(f, CharField)}
_ATTEMPT_WIDTHS = {
    f.name: f.max_length for f in LedgerAttempt._meta.fields if isinstance(f, CharField)
}

Converters = tuple[tuple[int, Callable[[Any], Any]], ...]


def arrived_at(record: CallRecord) -> datetime:
    return datetime.fromtimestamp(record.arrived_at, UTC)


def call_row(record: CallRecord) -> tuple[Any, ...]:
    """``arrived_at`` first, then ``CALL_COLUMNS``."""
    at = connection.ops.adapt_datetimefield_value(arrived_at(record))
    return (at, *_converted(_CALL_VALUES(record), _CALL_CONVERTERS))


def attempt_row(call_id: str, attempt: AttemptRecord) -> tuple[Any, ...]:
    """The call id first, then ``ATTEMPT_COLUMNS``."""
    return (call_id, *_converted(_ATTEMPT_VALUES(attempt), _ATTEMPT_CONVERTERS))


def _converted(values: tuple[Any, ...], converters: Converters) -> list[Any]:
    row = list(values)
    for place, convert in converters:
        row[place] = convert(row[place])
    return row


def _cut_to(width: int) -> Callable[[Any], str]:
    def cut(value: Any) -> str:
        if value is None:
            return ""
        text = str(value)[:width]
        if text.isascii() and "\0" not in text:
            return text
        return text.encode("utf-8", "replace").decode().replace("\0", "�")

    return cut


def _number(value: int | None) -> int | None:
    """Not as a member of an enum."""
    return None if value is None else int(value)


def _converters(columns: tuple[str, ...], widths: dict[str, int | None]) -> Converters:
    """Of the columns that need one, by place."""
    found: list[tuple[int, Callable[[Any], Any]]] = []
    for place, name in enumerate(columns):
        if width := widths.get(name):
            found.append((place, _cut_to(width)))
        elif name == KLASS:
            found.append((place, _number))
    return tuple(found)


_CALL_VALUES = attrgetter(*CALL_COLUMNS)
_ATTEMPT_VALUES = attrgetter(*ATTEMPT_COLUMNS)
_CALL_CONVERTERS = _converters(CALL_COLUMNS, _CALL_WIDTHS)
_ATTEMPT_CONVERTERS = _converters(ATTEMPT_COLUMNS, _ATTEMPT_WIDTHS)
