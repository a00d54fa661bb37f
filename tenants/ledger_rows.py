"""How does a call record become a row? Columns by name, text that any database takes, numbers kept.

Text is what clients and replicas sent: it is cut to its column, and NUL and lone surrogates, which
PostgreSQL refuses, are replaced, so that one strange call never holds up the ledger.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any

from django.db import connection
from django.db.models import CharField

from gateway.core.records import AttemptRecord, CallRecord
from tenants.models import LedgerAttempt, LedgerCall

NOT_HERE = ("attempts", "arrived_at", "predicted_cached_tokens", "story")
CALL_COLUMNS = tuple(name for name in CallRecord.__struct_fields__ if name not in NOT_HERE)
ATTEMPT_COLUMNS = AttemptRecord.__struct_fields__
_CALL_WIDTHS = {f.name: f.max_length for f in LedgerCall._meta.fields if isinstance(f, CharField)}
_ATTEMPT_WIDTHS = {
    f.name: f.max_length for f in LedgerAttempt._meta.fields if isinstance(f, CharField)
}

Texts = tuple[tuple[int, int], ...]  # places of text in a row, and how wide their columns are


def arrived_at(record: CallRecord) -> datetime:
    return datetime.fromtimestamp(record.arrived_at, UTC)


def call_rows(records: Iterable[CallRecord]) -> Iterator[list[Any]]:
    """``arrived_at`` first, then ``CALL_COLUMNS``."""
    adapted = connection.ops.adapt_datetimefield_value  # looked for once: it is far away
    for record in records:
        row = [adapted(arrived_at(record)), *_CALL_VALUES(record)]
        if (klass := row[_KLASS_AT]) is not None:
            row[_KLASS_AT] = int(klass)  # not as a member of an enum
        _fit(row, _CALL_TEXTS)
        yield row


def attempt_row(call_id: str, attempt: AttemptRecord) -> list[Any]:
    """The call id first, then ``ATTEMPT_COLUMNS``."""
    row = [call_id, *_ATTEMPT_VALUES(attempt)]
    _fit(row, _ATTEMPT_TEXTS)
    return row


def _fit(row: list[Any], texts: Texts) -> None:
    """Most texts are short and printable, and stay as they are."""
    for place, width in texts:
        text = row[place]
        if text.__class__ is not str or len(text) > width:
            text = row[place] = "" if text is None else str(text)[:width]
        if text and not (text.isascii() and text.isprintable()):
            row[place] = text.encode("utf-8", "replace").decode().replace("\0", "�")


def _texts(columns: tuple[str, ...], widths: dict[str, int | None]) -> Texts:
    """In rows that have one value before those of ``columns``."""
    found = ((place, widths.get(name)) for place, name in enumerate(columns, start=1))
    return tuple((place, width) for place, width in found if width)


_CALL_VALUES = attrgetter(*CALL_COLUMNS)
_ATTEMPT_VALUES = attrgetter(*ATTEMPT_COLUMNS)
_KLASS_AT = 1 + CALL_COLUMNS.index("klass")
_CALL_TEXTS = _texts(CALL_COLUMNS, _CALL_WIDTHS)
_ATTEMPT_TEXTS = _texts(ATTEMPT_COLUMNS, _ATTEMPT_WIDTHS)
