"""How do many new rows reach the database quickly, each once?

One statement per part, ON CONFLICT DO NOTHING. SQLite takes the values as parameters. PostgreSQL
takes one JSON document and takes it apart itself: binding 15,000 parameters in Python would cost
ten times as much, in a process that has a gateway to run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import msgspec
from django.db import connection
from django.db.models import Model

ROWS_PER_STATEMENT = 400  # × 40 columns stays below SQLite's 32,766 parameters


@dataclass(frozen=True, slots=True)
class Target:
    """``columns`` in the order of the rows' values; ``unique`` decides what is new."""

    model: type[Model]
    columns: tuple[str, ...]
    unique: tuple[str, ...]


def insert_new(target: Target, rows: Iterable[Sequence[Any]]) -> list[str]:
    """Returns the first unique column of the rows that were not there."""
    insert = _insert_json if connection.vendor == "postgresql" else _insert_values
    rest = iter(rows)
    keys: list[str] = []
    while part := list(islice(rest, ROWS_PER_STATEMENT)):
        keys += insert(target, part)
    return keys


def _insert_values(target: Target, rows: Sequence[Sequence[Any]]) -> list[str]:
    one = f"({', '.join(['%s'] * len(target.columns))})"
    source = f"VALUES {', '.join([one] * len(rows))}"
    return _execute(target, source, [value for row in rows for value in row])


def _insert_json(target: Target, rows: Sequence[Sequence[Any]]) -> list[str]:
    document = msgspec.json.encode([dict(zip(target.columns, row, strict=True)) for row in rows])
    types = {field.column: field.db_type(connection) for field in target.model._meta.fields}
    typed = ", ".join(f"{_quoted(name)} {types[name]}" for name in target.columns)
    source = f"SELECT * FROM json_to_recordset(%s::json) AS row({typed})"
    return _execute(target, source, [document.decode()])


def _execute(target: Target, source: str, parameters: Sequence[Any]) -> list[str]:
    """Names come from the models, values travel as parameters."""
    names, unique = _list(target.columns), _list(target.unique)
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {_quoted(target.model._meta.db_table)} ({names}) {source}"
            f" ON CONFLICT ({unique}) DO NOTHING RETURNING {_quoted(target.unique[0])}",
            parameters,
        )
        return [str(row[0]) for row in cursor.fetchall()]


def _list(names: Iterable[str]) -> str:
    return ", ".join(_quoted(name) for name in names)


def _quoted(name: str) -> str:
    return connection.ops.quote_name(name)
