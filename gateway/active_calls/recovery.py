"""Which calls were in flight when the last process died?

At the start the old table is renamed (`set_aside`), `recover` reads every table that was set
aside, and `forget` removes them once each orphan has been settled and its record is in the
journal. A crash in between leaves them for the next start: settling and the ledger are
idempotent by call id.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Collection, Iterator
from pathlib import Path

from gateway.active_calls.layout import (
    HEADER,
    HEADER_BYTES,
    LAYOUT,
    MAGIC,
    SLOT_BYTES,
    Orphan,
    unpack_slot,
)


def lock_table(path: Path) -> int:
    """Takes the advisory lock beside the table; the kernel drops it when the process dies."""
    descriptor = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise OSError(error.errno, f"another gateway is running on {path.parent}") from error
    return descriptor


def set_aside(path: Path) -> None:
    if path.exists():
        taken = len(_set_aside_tables(path))
        path.rename(path.with_suffix(f".orphans-{taken}"))


def recover(path: Path, known: Collection[str] = ()) -> tuple[list[Orphan], int]:
    """Orphans not in ``known`` (calls already in the journal), and how many slots were damaged."""
    orphans: dict[str, Orphan] = {}
    damaged = 0
    for table in _set_aside_tables(path):
        for found in _read(table.read_bytes()):
            if found is None:
                damaged += 1
            elif found.opening.call_id not in known:
                orphans[found.opening.call_id] = found
    return list(orphans.values()), damaged


def forget(path: Path) -> None:
    for table in _set_aside_tables(path):
        table.unlink()


def _set_aside_tables(path: Path) -> list[Path]:
    return sorted(path.parent.glob(f"{path.stem}.orphans-*"))


def _read(content: bytes) -> Iterator[Orphan | None]:
    """None stands for a damaged slot. A file that is not a table yields nothing."""
    if len(content) < HEADER_BYTES:
        return
    magic, version, slot_bytes, capacity = HEADER.unpack_from(content)
    if (magic, version, slot_bytes) != (MAGIC, LAYOUT, SLOT_BYTES):
        return
    view = memoryview(content)
    for number in range(capacity):
        at = HEADER_BYTES + number * SLOT_BYTES
        try:
            orphan = unpack_slot(view[at : at + SLOT_BYTES])
        except ValueError:
            yield None
            continue
        if orphan is not None:
            yield orphan
