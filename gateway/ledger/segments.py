"""How do ledger records lie on disk until the database has them?

Files ``<number>.jsonl`` in one directory, one record per line, numbers rising. The newest may be
open for writing; all others are closed and complete except for a last line that a crash may have
torn. A failed write leaves the file as it was before. Not thread-safe: the journal's thread
writes, the ledger writer's thread reads and removes closed files.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import msgspec

from gateway.core.records import CallRecord

ROOM_BYTES = 64 * 1024
_DECODER = msgspec.json.Decoder(CallRecord)


@dataclass(frozen=True, slots=True)
class SegmentContent:
    records: tuple[CallRecord, ...]
    damaged: tuple[bytes, ...]  # complete lines that are not records


class Segments:
    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self._next = max((int(path.stem) for path in self._all()), default=0) + 1
        self._open: int | None = None  # descriptor
        self._open_path: Path | None = None
        self.open_bytes = 0

    def closed(self) -> list[Path]:
        """Oldest first."""
        return [path for path in self._all() if path != self._open_path]

    def held_bytes(self) -> int:
        """Of all segments. A file that the reader removes meanwhile counts 0."""
        return sum(_size_bytes(path) for path in self._all())

    def append(self, lines: bytes) -> None:
        """On disk when this returns. Raises OSError; nothing is then added."""
        descriptor = self._descriptor()
        try:
            _write_all(descriptor, lines)
            os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, self.open_bytes)
            raise
        self.open_bytes += len(lines)

    def check_room(self) -> None:
        """Writes and takes back what several records need. Raises OSError where nothing can be
        written."""
        descriptor = self._descriptor()
        try:
            _write_all(descriptor, bytes(ROOM_BYTES))
            os.fsync(descriptor)
        finally:
            os.ftruncate(descriptor, self.open_bytes)

    def close_open(self) -> None:
        """Makes what was appended readable for the ledger writer."""
        if self._open is not None and self.open_bytes:
            os.close(self._open)
            self._open = self._open_path = None

    def _descriptor(self) -> int:
        if self._open is None:
            path = self.directory / f"{self._next:012d}.jsonl"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
            self._open = os.open(path, flags, 0o600)
            self._open_path = path
            self._next += 1
            self.open_bytes = 0
        return self._open

    def _all(self) -> list[Path]:
        return sorted(self.directory.glob("*.jsonl"))


def read_segment(path: Path) -> SegmentContent:
    """A last line without its end was torn by a crash and is left out: the table of active calls
    has it."""
    records: list[CallRecord] = []
    damaged: list[bytes] = []
    *lines, _torn = path.read_bytes().split(b"\n")
    for line in lines:
        try:
            records.append(_DECODER.decode(line))
        except msgspec.DecodeError:
            damaged.append(line)
    return SegmentContent(tuple(records), tuple(damaged))


def _write_all(descriptor: int, lines: bytes) -> None:
    view = memoryview(lines)
    while view:
        view = view[os.write(descriptor, view) :]


def _size_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
