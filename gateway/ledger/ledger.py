"""The ledger as the gateway sees it: records go in, and are in the database soon, each once.

Start: `spooled_call_ids` (what an earlier process wrote, so that its table of active calls is
not counted twice), then `start`, which also replays the old segments. Each second: `watch`.
Stop: `stop`. A record is on disk within FLUSH_INTERVAL_S and an fsync of `append`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gateway.core.clock import Clock
from gateway.core.events import Event
from gateway.core.records import CallRecord
from gateway.degradation import Degradation
from gateway.ledger.journal import QUEUE_RECORDS, SPOOL_BYTES, Journal, OnDurable
from gateway.ledger.writer import Insert, LedgerWriter


@dataclass(frozen=True, slots=True)
class LedgerStats:
    """``dropped``: records that are in no ledger row and never will be, since the start."""

    unwritten_records: int
    spooled_bytes: int
    dropped: int


class Ledger:
    """``on_durable`` gets the ids of calls whose record is on disk (from a thread): it closes
    them in the table of active calls. ``publish`` is called from threads."""

    def __init__(
        self,
        directory: Path,
        on_durable: OnDurable,
        insert: Insert,
        publish: Callable[[Event], None],
        clock: Clock,
        *,
        spool_bytes: int = SPOOL_BYTES,
        queue_records: int = QUEUE_RECORDS,
    ) -> None:
        self._journal = Journal(
            directory,
            on_durable,
            Degradation("journal", publish, clock),
            spool_bytes=spool_bytes,
            queue_records=queue_records,
        )
        self._writer = LedgerWriter(self._journal, insert, Degradation("ledger", publish, clock))

    @property
    def writable(self) -> bool:
        """False: records may be lost, so whoever has a hard budget must be refused."""
        return self._journal.writable

    def spooled_call_ids(self) -> frozenset[str]:
        """Calls whose record an earlier process wrote and did not bring into the database."""
        return self._journal.found_call_ids

    def start(self) -> None:
        self._journal.start()
        self._writer.start()

    def stop(self, timeout_s: float) -> None:
        """Blocks up to twice ``timeout_s``. What the database did not take is replayed next
        time."""
        self._journal.stop(timeout_s)
        self._writer.stop(timeout_s)

    def offer(self, event: Event) -> bool:
        """The ledger as a direct sink of the event bus."""
        return self._journal.offer(event)

    def append(self, record: CallRecord) -> bool:
        return self._journal.append(record)

    def wait_durable(self, timeout_s: float) -> bool:
        """Blocks until every record appended so far is on disk. False: it took too long."""
        return self._journal.wait_durable(timeout_s)

    def watch(self) -> None:
        self._writer.watch()

    def stats(self) -> LedgerStats:
        return LedgerStats(
            unwritten_records=self._journal.unwritten_records,
            spooled_bytes=self._journal.spooled_bytes(),
            dropped=self._journal.dropped + self._writer.dropped,
        )
