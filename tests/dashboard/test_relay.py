"""Events on their way to another process's pages."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from channels.layers import InMemoryChannelLayer
from channels_redis.pubsub import RedisPubSubChannelLayer

from dashboard.live.audience import OPERATORS
from dashboard.live.facts import Tenancy
from dashboard.live.feed import LiveFeed
from dashboard.live.relay import WAITING_EVENTS, LivePublisher, pack, unpack
from dashboard.settings import DashboardSettings
from gateway.core.events import AttemptEnded, Restored
from gateway.core.records import AttemptRecord
from tests.dashboard.test_live_state import tenancy
from tests.fakes.live_events import LiveEvents
from tests.servers import RedisServer


def known(last: Tenancy) -> Tenancy:
    return tenancy(acme=1, rival=1)


@asynccontextmanager
async def relayed(sending: Any, receiving: Any) -> AsyncIterator[tuple[LivePublisher, LiveFeed]]:
    publisher = LivePublisher(sending)
    feed = LiveFeed(DashboardSettings(), read_tenancy=known, layer=receiving)
    await publisher.start()
    await feed.start()
    try:
        yield publisher, feed
    finally:
        await feed.stop()
        await publisher.stop()


async def shown_at(feed: LiveFeed, publisher: LivePublisher, within_s: float = 30) -> float:
    """Publishes a second again and again until the feed shows one; returns how long it took."""
    events = LiveEvents()
    started = time.monotonic()
    wanted = time.time()
    async with asyncio.timeout(within_s):
        with feed.subscribe(OPERATORS) as subscription:
            while True:
                publisher.on_event(events.second(time.time()))
                try:
                    async with asyncio.timeout(0.25):
                        moment = await subscription.next()
                except TimeoutError:
                    continue
                if moment.facts.at is not None and moment.facts.at >= wanted:
                    return time.monotonic() - started


def test_a_second_survives_the_way() -> None:
    second = LiveEvents().second(1_700_000_000.0)
    assert unpack(pack(second)) == second


def test_an_event_of_a_newer_version_is_skipped() -> None:
    assert unpack(msgspec.msgpack.encode(("NewThing", {"x": 1}))) is None


def test_what_pages_do_not_show_does_not_travel() -> None:
    publisher = LivePublisher(InMemoryChannelLayer())
    publisher.on_event(AttemptEnded("c", "acme", "p", AttemptRecord(1, "r", 0, 1, 0)))
    assert not publisher._waiting


def test_events_that_nobody_takes_are_bounded() -> None:
    publisher = LivePublisher(InMemoryChannelLayer())
    for n in range(10 * WAITING_EVENTS):
        publisher.on_event(Restored(float(n), "ledger"))
    assert len(publisher._waiting) == WAITING_EVENTS


async def test_pages_of_another_process_show_what_the_gateway_publishes() -> None:
    layer = InMemoryChannelLayer()
    async with relayed(layer, layer) as (publisher, feed):
        await shown_at(feed, publisher)


@pytest.mark.alone
async def test_pages_recover_after_the_layer_was_away(redis_server: RedisServer) -> None:
    """Row 80: correct within 5 s of its return; the gateway's side never waits."""
    sending = RedisPubSubChannelLayer(hosts=[redis_server.url])
    receiving = RedisPubSubChannelLayer(hosts=[redis_server.url])
    async with relayed(sending, receiving) as (publisher, feed):
        await shown_at(feed, publisher)
        redis_server.kill()
        events = LiveEvents()
        longest_s = 0.0
        for _ in range(40):
            began = time.monotonic()
            publisher.on_event(events.second(time.time()))
            longest_s = max(longest_s, time.monotonic() - began)
            await asyncio.sleep(0.02)
        await asyncio.to_thread(redis_server.start)
        assert await shown_at(feed, publisher) < 5
        assert longest_s < 0.1


@pytest.mark.parametrize("garbage", [b"", b"\xc1", msgspec.msgpack.encode(["x"])])
def test_garbage_is_an_error_of_its_own_kind(garbage: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        unpack(garbage)
