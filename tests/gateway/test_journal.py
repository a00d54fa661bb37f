from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from gateway.core.clock import SystemClock
from gateway.core.events import CallEnded, ConfigApplied, Degraded, Event, Restored
from gateway.degradation import Degradation
from gateway.ledger.journal import Journal
from gateway.ledger.segments import Segments, read_segment
from tests.gateway.factories import call_record
from tests.servers import wait_until


class Durable:
    """Collects call ids and says when a number of them is there."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self._more = threading.Condition()

    def __call__(self, call_ids: Sequence[str]) -> None:
        with self._more:
            self.ids.extend(call_ids)
            self._more.notify_all()

    def wait_for(self, number: int) -> None:
        with self._more:
            assert self._more.wait_for(lambda: len(self.ids) >= number, timeout=10)


@pytest.fixture
def durable() -> Durable:
    return Durable()


@pytest.fixture
def events() -> list[Event]:
    return []


@pytest.fixture
def journal(tmp_path: Path, durable: Durable, events: list[Event]) -> Iterator[Journal]:
    made = Journal(tmp_path, durable, Degradation("journal", events.append, SystemClock()))
    yield made
    made.stop(5)


def test_a_record_is_on_disk_before_it_is_called_durable(
    journal: Journal, durable: Durable, tmp_path: Path
) -> None:
    journal.start()
    record = call_record("a")
    assert journal.append(record)
    durable.wait_for(1)
    [segment] = tmp_path.glob("*.jsonl")
    assert read_segment(segment).records == (record,)


def test_it_takes_ended_calls_from_the_bus_and_nothing_else(
    journal: Journal, durable: Durable
) -> None:
    journal.start()
    assert journal.offer(ConfigApplied(at=0.0, version=1))
    assert journal.offer(CallEnded(call_record("a")))
    durable.wait_for(1)
    assert durable.ids == ["a"]


def test_stop_writes_what_waits(journal: Journal, tmp_path: Path) -> None:
    for number in range(5_000):
        journal.append(call_record(f"call-{number}"))
    journal.start()
    journal.stop(20)
    records = [r for path in sorted(tmp_path.glob("*.jsonl")) for r in read_segment(path).records]
    assert [record.call_id for record in records] == [f"call-{n}" for n in range(5_000)]
    assert journal.dropped == 0


def test_a_full_queue_drops_counts_and_frees_the_slot(tmp_path: Path, durable: Durable) -> None:
    quiet = Degradation("journal", lambda _: None, SystemClock())
    journal = Journal(tmp_path, durable, quiet, queue_records=2)
    assert [journal.append(call_record(name)) for name in "abc"] == [True, True, False]
    assert (journal.dropped, durable.ids) == (1, ["c"])


def test_a_spool_at_its_bound_keeps_records_in_memory_and_says_so(
    tmp_path: Path, durable: Durable, events: list[Event]
) -> None:
    degradation = Degradation("journal", events.append, SystemClock())
    journal = Journal(tmp_path, durable, degradation, spool_bytes=1_900)
    journal.start()
    journal.append(call_record("a"))
    durable.wait_for(1)
    journal.append(call_record("b"))
    journal.append(call_record("c"))
    wait_until(lambda: not journal.writable, "the bound")
    assert isinstance(events[0], Degraded)
    assert "the spool has reached its bound" in events[0].why
    for segment in journal.closed_segments():
        segment.unlink()
    durable.wait_for(3)
    assert isinstance(events[-1], Restored)
    journal.stop(5)
    assert journal.dropped == 0


def test_a_disk_that_takes_records_again_is_found_out_though_no_record_comes(
    journal: Journal, events: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row 35: or whoever has a hard budget would be refused until somebody else calls."""
    full = threading.Event()
    full.set()
    write = os.write

    def refuse(descriptor: int, data: bytes) -> int:
        if full.is_set():
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", refuse)
    journal.start()
    journal.append(call_record("a"))
    wait_until(lambda: not journal.writable, "the failed write")
    wait_until(lambda: bool(taken := journal.take_unwritten(1)) and not taken[1:], "the record")
    time.sleep(0.5)  # it goes on looking
    assert not journal.writable
    full.clear()
    wait_until(lambda: journal.writable, "the disk")
    assert [type(event) for event in events] == [Degraded, Restored]
    assert journal.spooled_bytes() == 0


def test_what_an_earlier_process_wrote_is_known_at_the_start(
    journal: Journal, durable: Durable, tmp_path: Path
) -> None:
    journal.start()
    journal.append(call_record("a"))
    durable.wait_for(1)
    journal.stop(5)
    later = Journal(tmp_path, durable, Degradation("journal", lambda _: None, SystemClock()))
    assert later.found_call_ids == {"a"}
    assert len(later.closed_segments()) == 1


def test_a_torn_last_line_is_left_out_and_a_damaged_one_is_told(tmp_path: Path) -> None:
    segments = Segments(tmp_path)
    segments.append(b'{"not": "a record"}\n{"call_id": "torn')
    segments.close_open()
    content = read_segment(segments.closed()[0])
    assert (content.records, content.damaged) == ((), (b'{"not": "a record"}',))


def test_numbers_of_segments_go_on_after_a_restart(tmp_path: Path) -> None:
    (tmp_path / "000000000041.jsonl").write_bytes(b"")
    segments = Segments(tmp_path)
    segments.append(b"x\n")
    assert (tmp_path / "000000000042.jsonl").exists()


def test_whoever_waits_for_safety_is_told(journal: Journal, durable: Durable) -> None:
    journal.append(call_record("a"))
    assert not journal.wait_durable(0.01)
    journal.start()
    assert journal.wait_durable(10)
    assert durable.ids == ["a"]
