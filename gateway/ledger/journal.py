"""How does a call's record survive until the database has it?

`append` (on the loop) puts it into a bounded queue; one thread encodes what waits, writes it to
the open segment, calls fsync, and only then tells ``on_durable`` the call ids, which frees their
slots in the table of active calls. From `append` to disk takes at most FLUSH_INTERVAL_S plus one
fsync.

When the disk takes nothing more (full, or the spool has reached its bound) records stay in the
queue; `writable` is False, so that hard budgets fail closed; the ledger writer may take them to
the database directly; when the queue is full too, a record is lost and counted in ``dropped``.
Nothing else loses one.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from gateway.core.events import CallEnded, Event
from gateway.core.records import CallRecord
from gateway.degradation import Degradation
from gateway.ledger.segments import ROOM_BYTES, Segments, read_segment

FLUSH_INTERVAL_S = 0.2
IDLE_S = 0.5
BATCH_RECORDS = 500  # encoded and synced at once
SEGMENT_BYTES = 4 * 1024 * 1024
QUEUE_RECORDS = 20_000
SPOOL_BYTES = 1024 * 1024 * 1024

OnDurable = Callable[[Sequence[str]], None]
_ENCODER = msgspec.json.Encoder()


class Journal:
    """``on_durable`` gets call ids, from the journal's thread."""

    def __init__(
        self,
        directory: Path,
        on_durable: OnDurable,
        degradation: Degradation,
        *,
        spool_bytes: int = SPOOL_BYTES,
        queue_records: int = QUEUE_RECORDS,
    ) -> None:
        self.dropped = 0
        self.segment_closed = threading.Event()
        self._segments = Segments(directory)
        self.found_call_ids = frozenset(
            record.call_id
            for path in self._segments.closed()
            for record in read_segment(path).records
        )  # of the segments that an earlier process left
        self._on_durable = on_durable
        self._degradation = degradation
        self._spool_bytes = spool_bytes
        self._queue_records = queue_records
        self._unwritten: deque[CallRecord] = deque()
        self._accepted = 0
        self._safe = 0
        self._progress = threading.Condition()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)

    @property
    def writable(self) -> bool:
        return self._degradation.why is None

    @property
    def unwritten_records(self) -> int:
        return len(self._unwritten)

    @property
    def directory(self) -> Path:
        return self._segments.directory

    def spooled_bytes(self) -> int:
        return self._segments.held_bytes()

    def closed_segments(self) -> list[Path]:
        return self._segments.closed()

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """Writes what waits. What cannot be written by then is counted as dropped."""
        self._stopping.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        self.dropped += len(self._unwritten)

    def offer(self, event: Event) -> bool:
        """The journal as a direct sink of the event bus."""
        return self.append(event.record) if isinstance(event, CallEnded) else True

    def append(self, record: CallRecord) -> bool:
        """Never waits. False: the queue is full and the record is lost (and counted)."""
        if len(self._unwritten) >= self._queue_records:
            self.dropped += 1
            self._on_durable((record.call_id,))
            return False
        self._accepted += 1
        self._unwritten.append(record)
        if not self._wake.is_set():
            self._wake.set()
        return True

    def wait_durable(self, timeout_s: float) -> bool:
        """Blocks until every record appended so far is safe. False: it took too long."""
        accepted = self._accepted
        with self._progress:
            return self._progress.wait_for(lambda: self._safe >= accepted, timeout_s)

    def take_unwritten(self, most: int) -> list[CallRecord]:
        """For the ledger writer while the disk is full: it must `give_back` or report them
        durable."""
        return _take(self._unwritten, most)

    def give_back(self, records: Sequence[CallRecord]) -> None:
        self._unwritten.extendleft(reversed(records))

    def durable(self, records: Sequence[CallRecord]) -> None:
        self._on_durable([record.call_id for record in records])
        with self._progress:
            self._safe += len(records)
            self._progress.notify_all()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._wake.wait(IDLE_S)  # the open segment may be due though no record came
            self._wake.clear()
            self._flush()
            self._recover()
            self._stopping.wait(FLUSH_INTERVAL_S)
        self._flush()
        self._segments.close_open()
        self.segment_closed.set()

    def _flush(self) -> None:
        while batch := _take(self._unwritten, BATCH_RECORDS):
            try:
                self._write(b"".join(_ENCODER.encode(record) + b"\n" for record in batch))
            except OSError as error:
                self.give_back(batch)
                self._degradation.report(f"call records cannot be written: {error.strerror}")
                self._wake.set()
                break
            self.durable(batch)
            self._degradation.report(None)
        self._close_if_due()

    def _recover(self) -> None:
        """The database has taken what the disk did not, and no record comes to try the disk with:
        whoever has a hard budget is refused until it is known to write again."""
        if self.writable or self._unwritten:
            return
        if self._segments.held_bytes() + ROOM_BYTES > self._spool_bytes:
            return
        try:
            self._segments.check_room()
        except OSError as error:
            self._degradation.report(f"call records cannot be written: {error.strerror}")
        else:
            self._degradation.report(None)

    def _write(self, lines: bytes) -> None:
        if self._segments.held_bytes() + len(lines) > self._spool_bytes:
            raise OSError(0, f"the spool has reached its bound of {self._spool_bytes} bytes")
        self._segments.append(lines)

    def _close_if_due(self) -> None:
        """The reader is idle, or the open segment is large."""
        if self._segments.open_bytes > SEGMENT_BYTES or not self._segments.closed():
            self._segments.close_open()
            self.segment_closed.set()


def _take(records: deque[CallRecord], most: int) -> list[CallRecord]:
    """From the left. Another thread may take as well, so emptiness is found by trying."""
    taken: list[CallRecord] = []
    while len(taken) < most:
        try:
            taken.append(records.popleft())
        except IndexError:
            break
    return taken
