from __future__ import annotations

import asyncio

import pytest

from gateway.core.clock import Clock
from gateway.core.dispatch.effects import ReplicaHealth
from tests.fakes import scripts
from tests.fakes.virtual_time import VirtualTime
from tests.replicas.bench import Bench, value

THREE = [value("r1"), value("r2"), value("r3")]


DEAD = scripts.refused()


def kill(bench: Bench, slug: str) -> None:
    """The process is gone: calls, probes and scrapes are refused."""
    bench.upstream.always[slug] = DEAD
    for path in ("/health", "/metrics"):
        bench.upstream.routes[slug, path] = DEAD


def revive(bench: Bench, slug: str) -> None:
    del bench.upstream.always[slug]
    for path in ("/health", "/metrics"):
        del bench.upstream.routes[slug, path]


def test_killed_replica_is_down_within_a_second_and_returns_half_open(
    virtual_time: VirtualTime,
) -> None:
    """R14, row 39"""

    async def scenario(clock: Clock) -> None:
        bench = Bench(clock)
        bench.fleet.apply(THREE)
        await asyncio.sleep(1.0)
        kill(bench, "r1")
        assert await bench.call("r1") is not None
        await asyncio.sleep(0.5)
        assert bench.state() == "down"
        assert not bench.health["r1"].admits
        revive(bench, "r1")
        await asyncio.sleep(10.0)
        assert bench.health["r1"] == ReplicaHealth("r1", True, 1)
        assert await bench.call("r1") is None
        assert bench.health["r1"] == ReplicaHealth("r1", True, 4)
        for _ in range(4):
            await bench.call("r1")
        assert bench.states("r1") == ["serving", "down", "half_open", "starting", "serving"]
        assert bench.states("r2") == ["serving"]
        await bench.fleet.stop()

    virtual_time.run(scenario(virtual_time.clock))


def test_idle_dead_replica_is_found_by_probes(virtual_time: VirtualTime) -> None:
    """R14: at most two probe intervals."""

    async def scenario(clock: Clock) -> None:
        bench = Bench(clock)
        bench.fleet.apply(THREE)
        await asyncio.sleep(1.0)
        kill(bench, "r2")
        await asyncio.sleep(10.0)
        assert bench.state("r2") == "down"
        await bench.fleet.stop()

    virtual_time.run(scenario(virtual_time.clock))


def test_replica_that_never_sends_a_token_is_ejected_although_its_probes_pass(
    virtual_time: VirtualTime,
) -> None:
    """G14, R12"""

    async def scenario(clock: Clock) -> None:
        bench = Bench(clock)
        bench.fleet.apply(THREE)
        bench.upstream.always["r1"] = scripts.hang_after(0)
        attempt = asyncio.create_task(bench.call("r1"))
        await asyncio.sleep(29.0)
        assert bench.state() == "serving"
        await asyncio.sleep(1.5)
        assert bench.state() == "ejected"
        assert not bench.health["r1"].admits
        attempt.cancel()
        await asyncio.sleep(10.0)
        assert bench.health["r1"] == ReplicaHealth("r1", True, 1)
        await bench.fleet.stop()

    virtual_time.run(scenario(virtual_time.clock))


def test_five_failures_before_the_first_token_eject(virtual_time: VirtualTime) -> None:
    async def scenario(clock: Clock) -> None:
        bench = Bench(clock)
        bench.fleet.apply(THREE)
        bench.upstream.always["r1"] = scripts.status(500)
        for _ in range(4):
            await bench.call("r1")
        assert bench.state() == "serving"
        await bench.call("r1")
        assert bench.state() == "ejected"
        await bench.fleet.stop()

    virtual_time.run(scenario(virtual_time.clock))


@pytest.mark.parametrize("script", [scripts.status(400), scripts.status(404), scripts.status(401)])
def test_refusals_never_eject(virtual_time: VirtualTime, script: scripts.Script) -> None:
    """Twenty invalid requests leave the replica as it was."""

    async def scenario(clock: Clock) -> None:
        bench = Bench(clock)
        bench.fleet.apply(THREE)
        bench.upstream.always["r1"] = script
        for _ in range(20):
            assert await bench.call("r1") is not None
        assert bench.states("r1") == ["serving"]
        await bench.fleet.stop()

    virtual_time.run(scenario(virtual_time.clock))


def test_callers_that_lose_patience_never_eject(virtual_time: VirtualTime) -> None:
    async def scenario(clock: Clock) -> None:
        bench = Bench(clock)
        bench.fleet.apply(THREE)
        bench.upstream.always["r1"] = scripts.tokens(ttft_s=5.0)
        for _ in range(20):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1.0):
                    await bench.call("r1")
        assert bench.states("r1") == ["serving"]
        assert bench.upstream.open_attempts == 0
        assert bench.fleet.replica("pool", "r1").in_flight == 0
        await bench.fleet.stop()

    virtual_time.run(scenario(virtual_time.clock))


def test_busy_replica_that_misses_probes_stays_while_streams_progress(
    virtual_time: VirtualTime,
) -> None:
    """R13"""

    async def scenario(clock: Clock) -> None:
        bench = Bench(clock)
        bench.fleet.apply(THREE)
        await asyncio.sleep(1.0)
        bench.upstream.routes["r1", "/health"] = scripts.hang_before_headers()
        bench.upstream.always["r1"] = scripts.tokens(60, gap_s=1.0)
        assert await bench.call("r1") is None
        assert bench.states("r1") == ["serving"]
        await bench.fleet.stop()

    virtual_time.run(scenario(virtual_time.clock))


def test_full_replica_is_spared_for_its_hint(virtual_time: VirtualTime) -> None:
    async def scenario(clock: Clock) -> None:
        bench = Bench(clock)
        bench.fleet.apply(THREE)
        bench.upstream.say("r1", scripts.status(503, retry_after="2"))
        await bench.call("r1")
        assert bench.health["r1"] == ReplicaHealth("r1", True, 0)
        await asyncio.sleep(1.9)
        assert bench.health["r1"].slot_cap == 0
        await asyncio.sleep(0.2)
        assert bench.health["r1"] == ReplicaHealth("r1", True, None)
        assert bench.states("r1") == ["serving"]
        await bench.fleet.stop()

    virtual_time.run(scenario(virtual_time.clock))


def test_at_most_half_of_a_pool_is_ejected(virtual_time: VirtualTime) -> None:
    async def scenario(clock: Clock) -> None:
        bench = Bench(clock)
        bench.fleet.apply(THREE)
        for slug in ("r1", "r2", "r3"):
            bench.upstream.always[slug] = scripts.status(500)
            for _ in range(6):
                await bench.call(slug)
        states = [bench.state(slug) for slug in ("r1", "r2", "r3")]
        assert states == ["ejected", "serving", "serving"]
        await bench.fleet.stop()

    virtual_time.run(scenario(virtual_time.clock))
