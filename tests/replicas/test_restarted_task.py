from __future__ import annotations

import asyncio

from gateway.replicas.restarted_task import RESTART_S, RestartedTask
from tests.fakes.virtual_time import VirtualTime


def test_failed_task_starts_again_after_a_second(virtual_time: VirtualTime) -> None:
    starts = []

    async def work() -> None:
        starts.append(virtual_time.elapsed_s)
        await asyncio.sleep(5.0)
        raise KeyError("a fault of our own")

    async def scenario() -> None:
        task = RestartedTask("test", work)
        task.start()
        await asyncio.sleep(14.0)
        task.stop()
        await task.ended()

    virtual_time.run(scenario())
    assert starts == [0.0, 5.0 + RESTART_S, 2 * (5.0 + RESTART_S)]


def test_stopped_task_stays_stopped(virtual_time: VirtualTime) -> None:
    starts = []

    async def work() -> None:
        starts.append(virtual_time.elapsed_s)
        raise KeyError("a fault of our own")

    async def scenario() -> None:
        task = RestartedTask("test", work)
        task.start()
        await asyncio.sleep(0.5)
        task.stop()
        await asyncio.sleep(5.0)

    virtual_time.run(scenario())
    assert starts == [0.0]
