from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from django.db import DataError, OperationalError

from gateway.core.clock import SystemClock
from gateway.core.events import Degraded, Event, Restored
from gateway.core.records import CallRecord
from gateway.ledger import Ledger
from tests.gateway.factories import call_record
from tests.servers import wait_until


class Database:
    """In memory; may be down, and may refuse a record for what it contains."""

    def __init__(self) -> None:
        self.rows: list[str] = []
        self.down = False
        self.refuses: set[str] = set()
        self.tries = 0

    def insert(self, records: Sequence[CallRecord]) -> None:
        self.tries += 1
        if self.down:
            raise OperationalError("no route to host")
        if any(record.call_id in self.refuses for record in records):
            raise DataError("a string literal cannot contain NUL characters")
        self.rows.extend(record.call_id for record in records)


@pytest.fixture
def database() -> Database:
    return Database()


@pytest.fixture
def events() -> list[Event]:
    return []


@pytest.fixture
def ledger(tmp_path: Path, database: Database, events: list[Event]) -> Iterator[Ledger]:
    made = Ledger(tmp_path, lambda _: None, database.insert, events.append, SystemClock())
    made.start()
    yield made
    made.stop(5)


def test_records_reach_the_database_and_leave_the_disk(
    ledger: Ledger, database: Database, tmp_path: Path
) -> None:
    for number in range(1_200):
        ledger.append(call_record(f"call-{number}"))
    wait_until(lambda: len(database.rows) == 1_200, "1,200 rows")
    wait_until(lambda: not list(tmp_path.glob("*.jsonl")), "an empty spool")
    assert database.rows == [f"call-{number}" for number in range(1_200)]


def test_while_the_database_is_down_records_wait_on_disk_and_come_back(
    ledger: Ledger, database: Database, tmp_path: Path
) -> None:
    """Row 33, unit level."""
    database.down = True
    for number in range(50):
        ledger.append(call_record(f"call-{number}"))
    wait_until(lambda: database.tries >= 1 and ledger.stats().unwritten_records == 0, "a try")
    assert ledger.stats().spooled_bytes > 50 * 500
    assert ledger.writable
    database.down = False
    wait_until(lambda: len(database.rows) == 50, "50 rows")
    assert ledger.stats().dropped == 0


def test_a_late_ledger_is_declared_degraded_and_restored(
    tmp_path: Path, database: Database, events: list[Event]
) -> None:
    segment = tmp_path / "000000000001.jsonl"
    segment.touch()
    os.utime(segment, (1, 1))
    ledger = Ledger(tmp_path, lambda _: None, database.insert, events.append, SystemClock())
    ledger.watch()
    ledger.watch()
    [degraded] = events
    assert isinstance(degraded, Degraded)
    assert degraded.part == "ledger"
    segment.unlink()
    ledger.watch()
    assert [type(event) for event in events] == [Degraded, Restored]


def test_one_bad_record_does_not_keep_the_others_out(
    ledger: Ledger, database: Database, tmp_path: Path
) -> None:
    database.refuses = {"call-3"}
    for number in range(6):
        ledger.append(call_record(f"call-{number}"))
    wait_until(lambda: len(database.rows) == 5, "5 rows")
    wait_until(lambda: ledger.stats().dropped == 1, "the count")
    assert b"call-3" in (tmp_path / "refused.txt").read_bytes()


def test_a_damaged_line_is_set_aside_and_counted(
    tmp_path: Path, database: Database, events: list[Event]
) -> None:
    (tmp_path / "000000000001.jsonl").write_bytes(b"\x00garbage\n")
    ledger = Ledger(tmp_path, lambda _: None, database.insert, events.append, SystemClock())
    ledger.start()
    wait_until(lambda: ledger.stats().dropped == 1, "the count")
    ledger.stop(5)
    assert (tmp_path / "refused.txt").read_bytes() == b"\x00garbage\n"


def test_with_a_full_spool_records_go_past_the_disk(tmp_path: Path, database: Database) -> None:
    """Row 35: what the disk does not take, a working database still gets."""
    durable: list[str] = []
    ledger = Ledger(
        tmp_path,
        durable.extend,
        database.insert,
        lambda _: None,
        SystemClock(),
        spool_bytes=10,
    )
    ledger.start()
    for number in range(700):
        ledger.append(call_record(f"call-{number}"))
    wait_until(lambda: len(database.rows) == 700, "700 rows")
    wait_until(lambda: len(durable) == 700, "700 closed calls")
    ledger.stop(5)
    assert ledger.stats().dropped == 0
    assert sorted(database.rows) == sorted(f"call-{number}" for number in range(700))


def test_with_disk_and_database_gone_the_counter_equals_the_gap(
    tmp_path: Path, database: Database, events: list[Event]
) -> None:
    """Row 35: no silent loss, and hard budgets are told to fail closed."""
    database.down = True
    ledger = Ledger(
        tmp_path,
        lambda _: None,
        database.insert,
        events.append,
        SystemClock(),
        spool_bytes=10,
        queue_records=20,
    )
    ledger.start()
    ledger.append(call_record("first"))
    wait_until(lambda: not ledger.writable, "the spool's bound")
    accepted = sum(ledger.append(call_record(f"call-{number}")) for number in range(99))
    database.down = False
    wait_until(lambda: len(database.rows) >= accepted + 1, "what was accepted")
    ledger.stop(5)
    assert ledger.stats().dropped == 100 - len(database.rows) > 0
    assert next(event.part for event in events if isinstance(event, Degraded)) == "journal"


def test_the_last_records_reach_the_database_though_no_other_comes(
    ledger: Ledger, database: Database
) -> None:
    database.down = True
    ledger.append(call_record("first"))
    wait_until(lambda: database.tries >= 1, "a try")
    ledger.append(call_record("last"))
    wait_until(lambda: ledger.stats().unwritten_records == 0, "the last one on disk")
    database.down = False
    wait_until(lambda: database.rows == ["first", "last"], "both rows")
