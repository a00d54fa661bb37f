"""kill -9 while the table of active calls and the journal are being written (row 16, unit
level)."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from gateway.active_calls import ActiveCalls, recover
from gateway.core.clock import SystemClock
from gateway.ledger import Ledger
from tests.gateway.crashing_gateway import LedgerFile
from tests.gateway.factories import call_record
from tests.servers import wait_until

ROOT = Path(__file__).resolve().parents[2]


def run_and_kill(directory: Path, *, seed: int, after_lines: int) -> dict[str, tuple[int, bool]]:
    """Per call that was opened: tokens received as last told, and whether its end was told."""
    command = [sys.executable, "-m", "tests.gateway.crashing_gateway", str(directory), str(seed)]
    told: dict[str, tuple[int, bool]] = {}
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, env=os.environ) as process:
        assert process.stdout is not None
        for number, line in enumerate(process.stdout):
            if number == after_lines:
                process.kill()
            if line.endswith(b"\n"):
                word, call_id, *count = line.decode().split()
                told[call_id] = (int(count[0]) if count else 0, word == "end")
    return told


def restart(directory: Path) -> dict[str, tuple[int, bool]]:
    """Recovers as a new process does and returns the ledger."""
    table = ActiveCalls(directory / "active", 4_096)
    ledger_file = LedgerFile(directory / "ledger.sqlite3")
    stored = threading.Event()
    ledger = Ledger(
        directory / "journal",
        lambda ids: stored.set(),
        ledger_file.insert,
        lambda _: None,
        SystemClock(),
    )
    orphans, damaged = recover(directory / "active", ledger.spooled_call_ids())
    assert damaged == 0
    for orphan in orphans:
        received = orphan.received_tokens
        ledger.append(
            call_record(orphan.opening.call_id, received_tokens=received, batch_id="orphan")
        )
    ledger.start()
    ledger.stop(30)
    assert ledger.stats().spooled_bytes == 0
    table.shut()
    return ledger_file.rows()


@pytest.mark.parametrize("after_lines", [1, 37, 400, 2_500, 9_000, 20_000])
def test_after_kill_9_every_call_is_in_the_ledger_once_with_what_it_received(
    tmp_path: Path, after_lines: int
) -> None:
    """Row 16: nothing lost, nothing charged twice, whatever the moment."""
    told = run_and_kill(tmp_path, seed=after_lines, after_lines=after_lines)
    ledger = restart(tmp_path)
    assert told.keys() <= ledger.keys()
    assert len(ledger.keys() - told.keys()) <= 1  # opened, and killed before it could tell
    for call_id, (tokens, ended) in told.items():
        charged, _ = ledger[call_id]
        assert tokens <= charged <= tokens + (not ended)


def test_a_crash_while_recovering_changes_nothing(tmp_path: Path) -> None:
    """Row 16: the orphans are found again, and the ledger takes each once."""
    told = run_and_kill(tmp_path, seed=7, after_lines=3_000)
    first = restart(tmp_path)
    assert restart(tmp_path) == first
    assert told.keys() <= first.keys()


def test_the_table_survives_without_any_journal(tmp_path: Path) -> None:
    """Row 16: calls whose end was only queued are still in the table."""
    told = run_and_kill(tmp_path, seed=3, after_lines=300)
    table = ActiveCalls(tmp_path / "active", 16)
    orphans, _ = recover(tmp_path / "active")
    table.shut()
    running = {call_id for call_id, (_, ended) in told.items() if not ended}
    assert running <= {orphan.opening.call_id for orphan in orphans}


def test_the_writer_inserts_while_the_journal_goes_on(tmp_path: Path) -> None:
    ledger_file = LedgerFile(tmp_path / "ledger.sqlite3")
    ledger = Ledger(
        tmp_path / "journal", lambda _: None, ledger_file.insert, lambda _: None, SystemClock()
    )
    ledger.start()
    for number in range(3_000):
        ledger.append(call_record(f"call-{number}"))
    wait_until(lambda: len(ledger_file.rows()) == 3_000, "3,000 rows")
    ledger.stop(10)
    stats = ledger.stats()
    assert (stats.dropped, stats.spooled_bytes, stats.unwritten_records) == (0, 0, 0)
