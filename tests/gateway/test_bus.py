from __future__ import annotations

import asyncio
import threading

import pytest

from gateway.bus import EventBus
from gateway.core.events import ConfigApplied, Event, Restored


def event(version: int) -> ConfigApplied:
    return ConfigApplied(at=0.0, version=version)


async def turns(number: int = 10) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


async def test_every_sink_gets_every_event_in_order() -> None:
    bus = EventBus(on_drop=lambda sink: None)
    first: list[Event] = []
    second: list[Event] = []
    bus.add("first", first.append)
    bus.add("second", second.append)
    running = asyncio.create_task(bus.run())
    for version in range(500):
        bus.publish(event(version))
    await turns(20)
    running.cancel()
    assert first == second == [event(version) for version in range(500)]


async def test_a_full_sink_loses_events_and_each_loss_is_counted() -> None:
    dropped: list[str] = []
    kept: list[Event] = []
    bus = EventBus(on_drop=dropped.append)
    bus.add("slow", kept.append, capacity=3)
    for version in range(5):
        bus.publish(event(version))
    bus.drain()
    assert dropped == ["slow", "slow"]
    assert kept == [event(0), event(1), event(2)]


async def test_a_direct_sink_that_refuses_is_counted() -> None:
    dropped: list[str] = []
    bus = EventBus(on_drop=dropped.append)
    bus.add_direct("journal", lambda event: False)
    bus.publish(event(1))
    assert dropped == ["journal"]


async def test_a_sink_gets_only_the_kinds_that_it_is_for() -> None:
    bus = EventBus(on_drop=lambda sink: None)
    some: list[Event] = []
    rest: list[Event] = []
    bus.add("some", some.append, frozenset({ConfigApplied}))
    bus.publish(Restored(0.0, "ledger"))
    bus.add("rest", rest.append, frozenset({Restored}))
    bus.publish(event(1))
    bus.publish(Restored(0.0, "database"))
    bus.drain()
    assert (some, rest) == ([event(1)], [Restored(0.0, "database")])


async def test_after_a_handler_raised_the_next_run_goes_on_behind_the_event() -> None:
    seen: list[int] = []

    def handle(given: Event) -> None:
        assert isinstance(given, ConfigApplied)
        if given.version == 1:
            raise RuntimeError("bad event")
        seen.append(given.version)

    bus = EventBus(on_drop=lambda sink: None)
    bus.add("log", handle)
    for version in range(3):
        bus.publish(event(version))
    with pytest.raises(RuntimeError, match="bad event"):
        await bus.run()
    running = asyncio.create_task(bus.run())
    bus.publish(event(3))
    await turns()
    running.cancel()
    assert seen == [0, 2, 3]


async def test_events_of_threads_arrive() -> None:
    bus = EventBus(on_drop=lambda sink: None)
    arrived = asyncio.Event()
    bus.add("live", lambda _: arrived.set())
    running = asyncio.create_task(bus.run())
    await turns(1)
    threading.Thread(target=bus.publish_from_thread, args=(event(1),)).start()
    async with asyncio.timeout(5):
        await arrived.wait()
    running.cancel()
