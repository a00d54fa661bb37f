"""What is said of an event loop that stands still."""

from __future__ import annotations

import asyncio
import time

from structlog.testing import capture_logs

from gateway.core.clock import SystemClock
from gateway.loop_watch import LoopWatch


def busy_callback_of_somebody(for_s: float) -> None:
    until_s = time.monotonic() + for_s
    while time.monotonic() < until_s:
        pass


async def test_what_holds_the_loop_is_named_and_its_time_counted() -> None:
    """Row 18: a loop that is held for more than 250 ms. 0.6 s here."""
    stood = asyncio.Queue[float]()
    watch = LoopWatch(stood.put_nowait, SystemClock())
    with capture_logs() as lines:
        task = asyncio.create_task(watch.run())
        await asyncio.sleep(0)
        busy_callback_of_somebody(0.6)
        async with asyncio.timeout(20):
            for_s = await stood.get()
        task.cancel()
    told = [line for line in lines if line["event"] == "loop_blocked"]
    assert for_s >= 0.5
    assert any("busy_callback_of_somebody" in line for line in told[0]["stack"])
    assert told[0]["for_s"] >= 0.25


async def test_a_loop_that_turns_is_not_complained_of() -> None:
    stood: list[float] = []
    watch = LoopWatch(stood.append, SystemClock())
    task = asyncio.create_task(watch.run())
    for _ in range(20):
        await asyncio.sleep(0.01)
    task.cancel()
    assert [for_s for for_s in stood if for_s < 0.25] == []
