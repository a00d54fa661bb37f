"""How do spooled records reach the database, each exactly once?

One thread takes the closed segments of the journal, oldest first, inserts their records in bulk
and removes a segment after the commit. The insert is idempotent by call id, so a crash in
between repeats nothing. A database that is down or frozen leaves the segments where they are:
the spool grows up to its bound, and `watch` declares the part "ledger" degraded once the oldest
has waited LATE_S. While many calls end, segments are left to grow for PACE_S.

A record that the database refuses for what it contains is set aside in ``refused.txt``, logged and
counted in ``dropped``, so that it cannot block the others; so is a damaged line.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import structlog
from django.db import DataError, IntegrityError, close_old_connections, connection
from django.db import Error as DatabaseError

from gateway.core.records import CallRecord
from gateway.degradation import Degradation
from gateway.ledger.journal import Journal
from gateway.ledger.segments import read_segment

ROWS = 500  # per insert
MANY_ROWS = 40  # of one turn: then the next one waits, since each has a cost of its own
PACE_S = 0.7
RETRY_S = 0.5
IDLE_S = 1.0
LATE_S = 5.0

Insert = Callable[[Sequence[CallRecord]], object]
log = structlog.get_logger(__name__)


class LedgerWriter:
    """``insert`` is `tenants.services.ledger.insert_calls`: one transaction, idempotent by call
    id."""

    def __init__(self, journal: Journal, insert: Insert, degradation: Degradation) -> None:
        self.dropped = 0
        self._journal = journal
        self._insert = insert
        self._degradation = degradation
        self._failure = ""
        self._moved = 0  # rows of this turn
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ledger", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """After the journal has stopped. What is not inserted by then is replayed at the next
        start."""
        self._stopping.set()
        self._journal.segment_closed.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def watch(self) -> None:
        """Once a second, from any thread: has the oldest record waited too long?"""
        oldest = next(iter(self._journal.closed_segments()), None)
        late = oldest is not None and _age_s(oldest) > LATE_S
        self._degradation.report((self._failure or "the database is slow") if late else None)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._journal.segment_closed.wait(IDLE_S)
            self._journal.segment_closed.clear()
            self._moved = 0
            if not self._empty_spool():
                self._stopping.wait(RETRY_S)
                self._journal.segment_closed.set()
            elif self._moved >= MANY_ROWS:
                self._stopping.wait(PACE_S)
        self._empty_spool()
        connection.close()

    def _empty_spool(self) -> bool:
        """False when the database did not take it all."""
        try:
            for segment in self._journal.closed_segments():
                self._move(segment)
            self._move_unwritten()
        except DatabaseError as error:
            connection.close()
            self._failure = f"the database does not take call records: {type(error).__name__}"
            return False
        self._failure = ""
        return True

    def _move(self, segment: Path) -> None:
        content = read_segment(segment)
        for line in content.damaged:
            self._set_aside(line, "damaged")
        self._moved += len(content.records)
        for start in range(0, len(content.records), ROWS):
            self._insert_rows(content.records[start : start + ROWS])
        segment.unlink()

    def _move_unwritten(self) -> None:
        """The disk takes nothing: past the journal."""
        while not self._journal.writable and (rows := self._journal.take_unwritten(ROWS)):
            try:
                self._insert_rows(rows)
            except DatabaseError:
                self._journal.give_back(rows)
                raise
            self._journal.durable(rows)

    def _insert_rows(self, rows: Sequence[CallRecord]) -> None:
        """All rows, or all but those that the database refuses for what they contain."""
        close_old_connections()
        try:
            self._insert(rows)
        except (DataError, IntegrityError, ValueError) as error:
            if len(rows) == 1:
                self._set_aside(msgspec.json.encode(rows[0]), type(error).__name__)
                return
            for row in rows:
                self._insert_rows((row,))

    def _set_aside(self, line: bytes, why: str) -> None:
        self.dropped += 1
        log.error("ledger_record_refused", why=why, file="refused.txt")
        with (self._journal.directory / "refused.txt").open("ab") as file:
            file.write(line + b"\n")


def _age_s(path: Path) -> float:
    """Since its last write."""
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return 0.0
