from __future__ import annotations

import asyncio

import pytest

from gateway.core.errors import ReplicaFull, UpstreamError
from gateway.replicas.upstream import ReplicaTarget
from gateway.simulation.engine import EngineConfig
from tests.fakes.simulated_upstream import MODEL, SimulatedUpstream, simulating
from tests.fakes.virtual_time import VirtualTime
from tests.replicas.calls import chat_body, read, usage_of

TARGET = ReplicaTarget("r1", "pool", "simulated", "http://r1", MODEL)


async def chat(upstream: SimulatedUpstream, text: str = "hello", tokens: int = 100) -> bytes:
    return await read(upstream, TARGET, chat_body(text, tokens, model=MODEL, ignore_eos=True))


def test_times_in_virtual_time_are_those_of_the_model(virtual_time: VirtualTime) -> None:
    async def scenario() -> float:
        async with simulating({"r1": EngineConfig()}) as upstream:
            started_s = asyncio.get_running_loop().time()
            await asyncio.gather(*(chat(upstream, f"{number}") for number in range(32)))
            return asyncio.get_running_loop().time() - started_s

    assert virtual_time.run(scenario()) == pytest.approx(100 * 0.0128, rel=0.05)


def test_full_engine_is_a_full_replica(virtual_time: VirtualTime) -> None:
    async def scenario() -> None:
        async with simulating({"r1": EngineConfig(sequences=1, queue_limit=1)}) as upstream:
            running = asyncio.create_task(chat(upstream))
            await asyncio.sleep(0.1)
            with pytest.raises(ReplicaFull):
                await chat(upstream)
            assert usage_of(await running)["completion_tokens"] == 100

    virtual_time.run(scenario())


def test_left_stream_leaves_the_engine_in_the_same_moment(virtual_time: VirtualTime) -> None:
    """G5"""

    async def scenario() -> None:
        async with simulating({"r1": EngineConfig()}) as upstream:
            task = asyncio.create_task(chat(upstream, tokens=1_000))
            await asyncio.sleep(1.0)
            assert upstream.engines["r1"].running == 1
            task.cancel()
            await asyncio.sleep(0)
            assert upstream.engines["r1"].running == 0

    virtual_time.run(scenario())


def test_wrong_model_is_refused(virtual_time: VirtualTime) -> None:
    async def scenario() -> None:
        async with simulating({"r1": EngineConfig()}) as upstream:
            with pytest.raises(UpstreamError) as caught:
                await read(upstream, TARGET, chat_body(model="other"))
            assert caught.value.status == 404

    virtual_time.run(scenario())
