from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gateway.core.clock import Clock
from gateway.core.dispatch.effects import ReplicaHealth
from gateway.core.events import Degraded, Restored
from gateway.replicas.fleet import UnknownReplica
from tests.fakes import scripts
from tests.fakes.virtual_time import VirtualTime
from tests.replicas.bench import Bench, value


def test_new_replica_admits_at_once_and_is_probed(virtual_time: VirtualTime) -> None:
    async def scenario(clock: Clock) -> None:
        bench = Bench(clock)
        bench.fleet.apply([value()])
        assert bench.health["r1"] == ReplicaHealth("r1", True, None)
        await asyncio.sleep(0.01)
        assert ("r1", "/health") in bench.upstream.gets
        await bench.fleet.stop()

    virtual_time.run(scenario(virtual_time.clock))


@pytest.mark.parametrize(
    "page",
    [
        scripts.status(500),
        scripts.hang_before_headers(),
        scripts.plain(b"renamed_series 3\n"),
        scripts.plain(b"vllm:num_requests_running{ nonsense\n"),
        scripts.plain(b"vllm:num_requests_running NaN\n"),
        scripts.html_error(),
    ],
)
def test_lost_telemetry_is_declared_and_traffic_goes_on(
    virtual_time: VirtualTime, page: scripts.Script
) -> None:
    """R17"""

    async def scenario(clock: Clock) -> None:
        bench = Bench(clock)
        bench.fleet.apply([value()])
        await asyncio.sleep(1.5)
        assert len(bench.samples) == 2
        bench.upstream.routes["r1", "/metrics"] = page
        await asyncio.sleep(10.0)
        assert len(bench.samples) == 2
        assert bench.fleet.live()[0].telemetry is None
        assert set(bench.fleet.degraded()) == {"r1"}
        assert bench.health["r1"] == ReplicaHealth("r1", True, None)
        assert await bench.call() is None
        del bench.upstream.routes["r1", "/metrics"]
        await asyncio.sleep(3.0)
        changes = [event for event in bench.events if isinstance(event, Degraded | Restored)]
        assert [(type(event), event.part) for event in changes] == [
            (Degraded, "telemetry:r1"),
            (Restored, "telemetry:r1"),
        ]
        await bench.fleet.stop()

    virtual_time.run(scenario(virtual_time.clock))


def test_replica_removed_and_added_again_is_another_object(virtual_time: VirtualTime) -> None:
    """R6: calls of the old object neither count for the new one nor lose their connection."""

    async def scenario(clock: Clock) -> None:
        bench = Bench(clock)
        bench.fleet.apply([value(serial=1)])
        old = bench.fleet.replica("pool", "r1")
        bench.upstream.say("r1", scripts.tokens(5, gap_s=1.0))
        running = asyncio.create_task(bench.call())
        await asyncio.sleep(1.5)
        bench.fleet.apply([])
        with pytest.raises(UnknownReplica):
            bench.fleet.replica("pool", "r1")
        bench.fleet.apply([value(serial=2)])
        new = bench.fleet.replica("pool", "r1")
        assert (old.in_flight, new.in_flight) == (1, 0)
        assert bench.forgotten == []
        assert await running is None
        await asyncio.sleep(0)
        assert (old.in_flight, new.in_flight) == (0, 0)
        await asyncio.sleep(0.1)
        assert bench.forgotten == [old.target]
        await bench.fleet.stop()

    virtual_time.run(scenario(virtual_time.clock))


def test_changed_address_is_another_object_and_changed_slots_are_not(
    virtual_time: VirtualTime,
) -> None:
    async def scenario(clock: Clock) -> None:
        bench = Bench(clock)
        bench.fleet.apply([value()])
        first = bench.fleet.replica("pool", "r1")
        bench.fleet.apply([value(slots=2)])
        assert bench.fleet.replica("pool", "r1") is first
        bench.fleet.apply([replace(value(), base_url="http://elsewhere/")])
        second = bench.fleet.replica("pool", "r1")
        assert second.target.base_url == "http://elsewhere"
        assert second.target.serial != first.target.serial
        await bench.fleet.stop()

    virtual_time.run(scenario(virtual_time.clock))


@pytest.mark.parametrize("setting", ["draining", "disabled"])
def test_set_aside_replica_admits_nothing_and_lets_streams_finish(
    virtual_time: VirtualTime, setting: str
) -> None:
    async def scenario(clock: Clock) -> None:
        bench = Bench(clock)
        bench.fleet.apply([value()])
        bench.upstream.say("r1", scripts.tokens(5, gap_s=1.0))
        running = asyncio.create_task(bench.call())
        await asyncio.sleep(1.5)
        bench.fleet.apply([value(state=setting)])
        assert not bench.health["r1"].admits
        assert bench.state() == setting
        assert await running is None
        bench.fleet.apply([value()])
        assert bench.health["r1"].admits
        assert bench.states() == ["serving", setting, "serving"]
        await bench.fleet.stop()

    virtual_time.run(scenario(virtual_time.clock))


def test_disabled_replica_is_left_alone(virtual_time: VirtualTime) -> None:
    async def scenario(clock: Clock) -> None:
        bench = Bench(clock)
        bench.fleet.apply([value(state="disabled")])
        await asyncio.sleep(20.0)
        assert bench.upstream.gets == []
        await bench.fleet.stop()

    virtual_time.run(scenario(virtual_time.clock))


def test_stopped_fleet_leaves_no_task(virtual_time: VirtualTime) -> None:
    async def scenario(clock: Clock) -> None:
        bench = Bench(clock)
        bench.fleet.apply([value("r1"), value("r2")])
        await asyncio.sleep(3.0)
        await bench.fleet.stop()
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    virtual_time.run(scenario(virtual_time.clock))
