"""A small gateway without network, to be killed at any moment: opens calls, counts tokens, ends
calls.

Run as a program: directory, seed. It tells the parent what it has done, one line each, after
having done it: ``open ID``, ``tokens ID N``, ``end ID N``. The ledger is a SQLite file of its
own, idempotent by call id; it counts how often a call was offered again.
"""

from __future__ import annotations

import os
import random
import sqlite3
import sys
from collections.abc import Sequence
from pathlib import Path

from gateway.active_calls import ActiveCall, ActiveCalls
from gateway.core.clock import SystemClock
from gateway.core.records import CallRecord
from gateway.ledger import Ledger
from tests.gateway.factories import call_record, opening

AT_ONCE = 30


class LedgerFile:
    """Stands for the database."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with sqlite3.connect(path) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute(
                "CREATE TABLE IF NOT EXISTS calls (id TEXT PRIMARY KEY, tokens INT, orphan INT)"
            )

    def insert(self, records: Sequence[CallRecord]) -> None:
        rows = [(r.call_id, r.received_tokens, r.batch_id == "orphan") for r in records]
        with sqlite3.connect(self._path, timeout=30) as connection:
            connection.executemany("INSERT OR IGNORE INTO calls VALUES (?, ?, ?)", rows)

    def rows(self) -> dict[str, tuple[int, bool]]:
        with sqlite3.connect(self._path) as connection:
            rows = connection.execute("SELECT id, tokens, orphan FROM calls").fetchall()
        return {call_id: (tokens, bool(orphan)) for call_id, tokens, orphan in rows}


def tell(line: str) -> None:
    os.write(1, f"{line}\n".encode())


def main(directory: Path, seed: int) -> None:
    table = ActiveCalls(directory / "active", 4_096)
    insert = LedgerFile(directory / "ledger.sqlite3").insert
    ledger = Ledger(directory / "journal", table.close, insert, lambda _: None, SystemClock())
    ledger.start()
    rng = random.Random(seed)
    running: list[ActiveCall] = []
    number = 0
    while True:
        if len(running) < AT_ONCE:
            call = table.open(opening(f"call-{seed}-{number}"))
            call.dispatched("r1")
            number += 1
            running.append(call)
            tell(f"open {call.opening.call_id}")
        call = rng.choice(running)
        call_id = call.opening.call_id
        if call.received_tokens and rng.random() < 0.05:
            running.remove(call)
            ledger.append(call_record(call_id, received_tokens=call.received_tokens))
            tell(f"end {call_id} {call.received_tokens}")
        else:
            call.tokens(call.received_tokens + 1)
            tell(f"tokens {call_id} {call.received_tokens}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
