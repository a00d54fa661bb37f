"""How is a file of calls read, and what is said when it is wrong?

Plain or gzip, told by the content and not by the name. The first mistake ends the reading with one
line that names file, line, column and what was expected there. Line numbers count from 1 and
include the header. The order of a trace is its times, whatever the order of its lines.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_GZIP = b"\x1f\x8b"


class TraceError(Exception):
    def __init__(self, path: Path, line: int, column: str, what: str) -> None:
        place = f", column {column}" if column else ""
        super().__init__(f"{path.name}, line {line}{place}: {what}")


class Row:
    """One line of a trace by column names. Every accessor raises ``TraceError``."""

    def __init__(self, path: Path, line: int, values: Mapping[str, Any]) -> None:
        self.path = path
        self.line = line
        self._values = values

    def wrong(self, column: str, what: str) -> TraceError:
        return TraceError(self.path, self.line, column, what)

    def text(self, column: str) -> str:
        value = self._values.get(column)
        if value is None:
            raise self.wrong(column, "missing")
        return str(value)

    def number(self, column: str) -> float:
        """Finite."""
        text = self.text(column)
        try:
            value = float(text)
        except ValueError:
            raise self.wrong(column, f"{text[:40]!r} is not a number") from None
        if not math.isfinite(value):
            raise self.wrong(column, f"{text[:40]!r} is not finite")
        return value

    def tokens(self, column: str) -> int:
        value = self.number(column)
        if value < 0 or value != int(value):
            raise self.wrong(column, f"{self.text(column)[:40]!r} is not a count of tokens")
        return int(value)

    def integers(self, column: str) -> tuple[int, ...]:
        value = self._values.get(column)
        if not isinstance(value, list) or not all(type(one) is int for one in value):
            raise self.wrong(column, "a list of integers is expected")
        return tuple(value)


def csv_rows(path: Path, columns: tuple[str, ...]) -> Iterator[Row]:
    """The columns must be in the header; others may be."""
    reader = csv.DictReader(_lines(path))
    missing = [column for column in columns if column not in (reader.fieldnames or ())]
    if missing:
        raise TraceError(path, 1, missing[0], "not in the header")
    try:
        for values in reader:
            yield Row(path, reader.line_num, values)
    except csv.Error as error:
        raise TraceError(path, reader.line_num, "", str(error)) from None


def json_rows(path: Path) -> Iterator[Row]:
    for number, line in enumerate(_lines(path), start=1):
        if not line.strip():
            continue
        try:
            values = json.loads(line)
        except json.JSONDecodeError as error:
            raise TraceError(path, number, str(error.colno), error.msg) from None
        if not isinstance(values, dict):
            raise TraceError(path, number, "1", "a JSON object is expected")
        yield Row(path, number, values)


def header(path: Path) -> str:
    """The first line."""
    return next(_lines(path), "").strip()


def _lines(path: Path) -> Iterator[str]:
    number = 0
    with _text(path) as lines:
        try:
            for line in lines:
                number += 1
                yield line
        except UnicodeDecodeError:
            raise TraceError(path, number + 1, "", "not UTF-8 text") from None
        except (gzip.BadGzipFile, zlib.error, EOFError):
            raise TraceError(path, number + 1, "", "the gzip file is damaged here") from None


def _text(path: Path) -> io.TextIOBase:
    with path.open("rb") as file:
        packed = file.read(2) == _GZIP
    if packed:
        return gzip.open(path, "rt", encoding="utf-8", newline="")
    return path.open(encoding="utf-8", newline="")
