"""A restart of the one-process store forgives at most its last second."""

from __future__ import annotations

import asyncio
import shutil
import time
from pathlib import Path

import pytest

from gateway.core.limits.demands import Refused, Reservation
from gateway.stores.memory import MemoryStore
from tests.stores.factories import call_id, demand


class HandClock:
    """Set by the test. A new process has another monotonic origin."""

    def __init__(self, monotonic_s: float, wall_s: float) -> None:
        self.monotonic_s = monotonic_s
        self.wall_s = wall_s

    def monotonic(self) -> float:
        return self.monotonic_s

    def wall(self) -> float:
        return self.wall_s


DEMANDS = (demand("tpm", 60, 100, window_s=60), demand("day", 60, 100), demand("concurrent", 1, 1))


async def killed_store(path: Path, *, settled: bool) -> str:
    """Writes within a second, then is copied away as kill -9 would leave it."""
    call, live = call_id(), path.with_name("live")
    async with MemoryStore(HandClock(5_000.0, 1_000.0), live, write_every_s=0.01) as store:
        await store.reserve(call, DEMANDS)
        if settled:
            await store.settle(call, {DEMANDS[0].key: 60, DEMANDS[1].key: 60})
        await asyncio.to_thread(copy_when_written, live, path, call)
    return call


def copy_when_written(live: Path, path: Path, call: str) -> None:
    deadline = time.monotonic() + 5
    while not (live.exists() and call.encode() in live.read_bytes()):
        assert time.monotonic() < deadline
        time.sleep(0.005)
    shutil.copy(live, path)


async def test_what_was_used_survives_and_drains_by_the_time_that_passed(tmp_path: Path) -> None:
    await killed_store(tmp_path / "quota", settled=True)
    async with MemoryStore(HandClock(7.0, 1_030.0), tmp_path / "quota") as store:
        states = await store.peek(DEMANDS)
    assert [state.used for state in states] == pytest.approx([60 - 30 * 100 / 60, 60, 0])


@pytest.mark.parametrize("wall_s", [900.0, 1_000.0])
async def test_wall_clock_set_back_during_the_restart_refills_nothing(
    tmp_path: Path, wall_s: float
) -> None:
    """Row 76."""
    await killed_store(tmp_path / "quota", settled=True)
    async with MemoryStore(HandClock(7.0, wall_s), tmp_path / "quota") as store:
        assert (await store.peek(DEMANDS))[0].used == 60


async def test_call_cut_by_kill_9_is_settled_once_by_its_recovery(tmp_path: Path) -> None:
    """Row 16: its slot is free at once, its tokens are charged as received."""
    call = await killed_store(tmp_path / "quota", settled=False)
    async with MemoryStore(HandClock(7.0, 1_000.0), tmp_path / "quota") as store:
        before = await store.peek(DEMANDS)
        for _ in range(2):
            await store.settle(call, {DEMANDS[0].key: 25, DEMANDS[1].key: 25})
        after = await store.peek(DEMANDS)
    assert [state.held for state in before] == [60, 60, 0]
    assert [(state.used, state.held) for state in after] == [(25, 0), (25, 0), (0, 0)]


async def test_call_that_nobody_recovers_is_free_after_its_lease(tmp_path: Path) -> None:
    """Row 16: nothing outstanding after 15 s."""
    await killed_store(tmp_path / "quota", settled=False)
    clock = HandClock(7.0, 1_000.0)
    async with MemoryStore(clock, tmp_path / "quota") as store:
        assert isinstance(await store.reserve(call_id(), DEMANDS), Refused)
        clock.monotonic_s += 15
        assert isinstance(await store.reserve(call_id(), DEMANDS), Reservation)


async def test_call_settled_just_before_the_crash_is_not_charged_again(tmp_path: Path) -> None:
    call = await killed_store(tmp_path / "quota", settled=True)
    async with MemoryStore(HandClock(7.0, 1_000.0), tmp_path / "quota") as store:
        await store.settle(call, {DEMANDS[1].key: 60})
        assert (await store.peek(DEMANDS))[1].used == 60


async def test_close_writes_what_the_last_second_held(tmp_path: Path) -> None:
    path, call = tmp_path / "quota", call_id()
    async with MemoryStore(HandClock(1.0, 1_000.0), path, write_every_s=60) as store:
        await store.reserve(call, DEMANDS)
        await store.settle(call, {DEMANDS[1].key: 33})
    async with MemoryStore(HandClock(7.0, 1_000.0), path) as store:
        assert (await store.peek(DEMANDS))[1].used == 33


@pytest.mark.parametrize("content", [b"", b"\x00\xff", b"{}", b"\x93\x01"])
async def test_damaged_file_is_said_and_started_without(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "quota").write_bytes(content)
    async with MemoryStore(HandClock(7.0, 1_000.0), tmp_path / "quota") as store:
        assert (await store.peek(DEMANDS))[0].used == 0
    assert "not readable" in caplog.text


async def test_full_disk_is_an_error_line_and_the_store_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with MemoryStore(HandClock(7.0, 1.0), tmp_path / "missing" / "quota") as store:
        assert isinstance(await store.reserve(call_id(), DEMANDS), Reservation)
    assert "could not be written" in caplog.text
