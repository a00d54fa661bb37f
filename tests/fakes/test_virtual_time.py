"""The virtual loop: exact, deterministic, and honest about what it cannot do."""

from __future__ import annotations

import asyncio
import socket
import time

import pytest

from tests.fakes.virtual_time import (
    START_S,
    Deadlock,
    RealIOUsed,
    VirtualTime,
    virtual_time,
)

__all__ = ["virtual_time"]


def test_an_hour_passes_in_no_time(virtual_time: VirtualTime) -> None:
    before_s = time.monotonic()
    virtual_time.run(asyncio.sleep(3600))
    assert virtual_time.elapsed_s == 3600.0
    assert time.monotonic() - before_s < 5


def test_timers_fire_in_order_at_their_exact_moment(virtual_time: VirtualTime) -> None:
    fired: list[tuple[str, float]] = []

    async def sleeper(name: str, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        fired.append((name, virtual_time.elapsed_s))

    async def main() -> None:
        await asyncio.gather(sleeper("late", 0.3), sleeper("early", 0.1), sleeper("mid", 0.2))

    virtual_time.run(main())
    assert fired == [("early", 0.1), ("mid", 0.2), ("late", 0.3)]


def test_a_deadline_fires_exactly(virtual_time: VirtualTime) -> None:
    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.25):
                await asyncio.Event().wait()

    virtual_time.run(main())
    assert virtual_time.elapsed_s == 0.25


def test_time_stands_still_while_a_task_works(virtual_time: VirtualTime) -> None:
    async def main() -> None:
        for _ in range(1000):
            await asyncio.sleep(0)

    virtual_time.run(main())
    assert virtual_time.clock.monotonic() == START_S


def test_waiting_for_nothing_is_a_deadlock(virtual_time: VirtualTime) -> None:
    async def main() -> None:
        await asyncio.create_task(asyncio.Event().wait(), name="forgotten")

    with pytest.raises(Deadlock, match="forgotten"):
        virtual_time.run(main())


def test_a_socket_is_refused(virtual_time: VirtualTime) -> None:
    async def main() -> None:
        left, right = socket.socketpair()
        left.setblocking(False)
        try:
            with pytest.raises(RealIOUsed):
                await asyncio.get_running_loop().sock_recv(left, 1)
        finally:
            left.close()
            right.close()

    virtual_time.run(main())


def test_tasks_left_behind_are_cancelled(virtual_time: VirtualTime) -> None:
    left: list[asyncio.Task[bool]] = []

    async def main() -> None:
        left.append(asyncio.create_task(asyncio.Event().wait()))
        await asyncio.sleep(1)

    virtual_time.run(main())
    assert left[0].cancelled()


def test_thread_work_runs_at_once(virtual_time: VirtualTime) -> None:
    async def main() -> int:
        return await asyncio.to_thread(sum, [1, 2, 3])

    assert virtual_time.run(main()) == 6
