"""Shares through the whole data plane, in front of simulated replicas, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from gateway.core.records import CallRecord
from gateway.simulation.engine import EngineConfig
from tests.fakes.data_plane import House, chat, replica, tenant
from tests.fakes.simulated_upstream import SimulatedUpstream, simulating
from tests.fakes.virtual_time import VirtualTime, virtual_time

__all__ = ["virtual_time"]

SEQUENCES = 8
CLIENTS = 40  # per tenant: more than all slots, so both are always backlogged
PROMPT = "word " * 60
SLUGS = ("r1", "r2")

Scenario = Callable[[House, SimulatedUpstream], Awaitable[None]]


def run(scenario: Scenario, time: VirtualTime, folder: Path) -> None:
    async def main() -> None:
        configs = dict.fromkeys(SLUGS, EngineConfig(sequences=SEQUENCES))
        async with simulating(configs, model="upstream-model") as upstream:
            house = House(
                time.clock,
                folder,
                transport=upstream,
                tenants=(tenant("heavy", weight=3.0), tenant("light", weight=1.0)),
                replicas=[replica(slug, kind="simulated", slots=SEQUENCES) for slug in SLUGS],
            )
            await house.open()
            try:
                await scenario(house, upstream)
            finally:
                await house.close()

    time.run(main())


async def backlog(house: House, seconds: float) -> list[CallRecord]:
    """Both tenants always want more than they get, for so long; what ended meanwhile."""

    async def client(slug: str, number: int) -> None:
        while True:
            body = chat(f"{slug} {number} {PROMPT}", max_tokens=32, ignore_eos=True, stream=True)
            await house.call(body, tenant=slug)

    before = len(house.records)
    clients = [
        asyncio.create_task(client(slug, number))
        for number in range(CLIENTS)
        for slug in ("heavy", "light")
    ]
    await asyncio.sleep(seconds)
    ended = house.records[before:]
    for task in clients:
        task.cancel()
    await asyncio.gather(*clients, return_exceptions=True)
    return ended


def end_at(record: CallRecord) -> float:
    return record.arrived_at + record.duration_s


def share(records: list[CallRecord]) -> float:
    """Service of heavy over that of light."""
    heavy, light = (
        sum(record.service_cost for record in records if record.tenant == slug)
        for slug in ("heavy", "light")
    )
    return heavy / light


def test_weights_of_three_to_one_give_three_times_the_service(
    virtual_time: VirtualTime, tmp_path: Path
) -> None:
    async def scenario(house: House, upstream: SimulatedUpstream) -> None:
        ended = await backlog(house, 15.0)
        first_end_at = min(map(end_at, ended))
        steady = [record for record in ended if end_at(record) > first_end_at + 1.0]
        assert {record.outcome.value for record in steady} == {"completed"}
        assert share(steady) == pytest.approx(3.0, abs=0.15)

    run(scenario, virtual_time, tmp_path)


def test_changed_weight_moves_the_shares_within_two_seconds(
    virtual_time: VirtualTime, tmp_path: Path
) -> None:
    async def scenario(house: House, upstream: SimulatedUpstream) -> None:
        loaded = asyncio.create_task(backlog(house, 10.0))
        await asyncio.sleep(3.0)
        house.change_tenant("heavy", weight=1.0)
        changed_at = house.clock.wall()
        ended = await loaded
        after = [record for record in ended if end_at(record) > changed_at + 2.0]
        assert share(after) == pytest.approx(1.0, abs=0.1)

    run(scenario, virtual_time, tmp_path)


def test_gateway_keeps_the_engines_full_and_their_queues_empty(
    virtual_time: VirtualTime, tmp_path: Path
) -> None:
    """The replica's own first-come queue never decides: nothing waits in it."""

    async def scenario(house: House, upstream: SimulatedUpstream) -> None:
        waiting, running = [], []

        async def look() -> None:
            while True:
                await asyncio.sleep(0.1)
                waiting.append(sum(engine.waiting for engine in upstream.engines.values()))
                running.append(sum(engine.running for engine in upstream.engines.values()))

        looking = asyncio.create_task(look())
        await backlog(house, 5.0)
        looking.cancel()
        assert max(waiting) <= len(SLUGS)
        assert sum(running) / len(running) >= 0.9 * SEQUENCES * len(SLUGS)

    run(scenario, virtual_time, tmp_path)


def test_tenant_that_returns_finds_its_prompts_cached_and_alone(
    virtual_time: VirtualTime, tmp_path: Path
) -> None:
    """R33: the salt is per tenant, so no tenant hits another's prefix."""

    async def scenario(house: House, upstream: SimulatedUpstream) -> None:
        body = chat(PROMPT * 4, max_tokens=1)
        for slug in ("heavy", "heavy", "heavy", "light"):
            await house.call(body, tenant=slug)
        cached = [record.cached_tokens for record in house.records]
        assert cached[0] == 0
        assert max(cached[1:3]) > 250
        assert cached[3] == 0

    run(scenario, virtual_time, tmp_path)
