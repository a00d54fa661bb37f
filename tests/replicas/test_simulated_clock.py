from __future__ import annotations

import asyncio

import pytest

from gateway.replicas.simulated_clock import EngineClock
from gateway.simulation.engine import Engine, EngineConfig, EngineRequest
from tests.fakes.virtual_time import VirtualTime


async def last_token_s(clock: EngineClock, tokens: int) -> float:
    """Seconds until the request's last token."""
    loop = asyncio.get_running_loop()
    started_s = loop.time()
    queue = clock.submit(EngineRequest("a", 16, tokens))
    assert queue is not None
    while not (await queue.get()).last:
        pass
    return loop.time() - started_s


@pytest.mark.parametrize("speed", [1.0, 10.0])
def test_speed_divides_the_time_of_the_model(virtual_time: VirtualTime, speed: float) -> None:
    async def scenario() -> float:
        clock = EngineClock(Engine(EngineConfig()), speed)
        task = asyncio.create_task(clock.run())
        try:
            return await last_token_s(clock, 100)
        finally:
            task.cancel()

    step_s = 0.0126
    assert virtual_time.run(scenario()) == pytest.approx(100 * step_s / speed, rel=0.02)


def test_idle_time_is_not_caught_up(virtual_time: VirtualTime) -> None:
    async def scenario() -> tuple[float, float]:
        clock = EngineClock(Engine(EngineConfig()))
        task = asyncio.create_task(clock.run())
        try:
            first_s = await last_token_s(clock, 10)
            await asyncio.sleep(60.0)
            return first_s, await last_token_s(clock, 10)
        finally:
            task.cancel()

    first_s, second_s = virtual_time.run(scenario())
    assert second_s == pytest.approx(first_s)
