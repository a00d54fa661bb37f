"""The fleet in real time: what virtual time cannot show is how long real sockets take to fail."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from gateway.core.clock import SystemClock
from gateway.core.errors import UpstreamError
from gateway.core.events import Event, ReplicaState
from gateway.replicas.fleet import Fleet
from gateway.replicas.http_upstream import HttpUpstream
from gateway.replicas.supervised_replica import FleetSinks
from gateway.snapshot.values import ReplicaValue
from tests.fakes.llamacpp import serving
from tests.replicas.calls import CHAT, SHORT, chat_body, chunks

pytestmark = pytest.mark.alone


class States:
    """The states that the fleet publishes, as they come."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[str] = asyncio.Queue()

    def publish(self, event: Event) -> None:
        if isinstance(event, ReplicaState):
            self._queue.put_nowait(event.state)

    async def until(self, state: str, limit_s: float) -> float:
        """Seconds until it came."""
        started_s = time.perf_counter()
        async with asyncio.timeout(limit_s):
            while await self._queue.get() != state:
                pass
        return time.perf_counter() - started_s


async def attempt(fleet: Fleet, upstream: HttpUpstream) -> UpstreamError | None:
    replica = fleet.replica("pool", "r1")
    try:
        with replica.watch() as watch:
            async with upstream.stream(
                replica.target, CHAT, chat_body(max_tokens=4), {}, SHORT
            ) as stream:
                async for _ in chunks(stream):
                    watch.progress(asyncio.get_running_loop().time())
    except UpstreamError as error:
        return error
    return None


async def test_killed_server_is_down_in_a_second_and_back_ten_seconds_after_its_return(
    upstream: HttpUpstream, llama_model: Path
) -> None:
    """Row 39, R14"""
    states = States()
    sinks = FleetSinks(lambda *_: None, lambda *_: None, states.publish)
    fleet = Fleet(upstream, SystemClock(), sinks, forget=upstream.forget)
    with serving(llama_model, slots=1) as server:
        port = urlsplit(server.url).port
        assert port is not None
        value = ReplicaValue(
            "r1", "pool", "llamacpp", server.url, "enabled", 1, 0, 0, frozenset(), 1
        )
        fleet.apply([value])
        assert await attempt(fleet, upstream) is None
        server.kill()
        assert await attempt(fleet, upstream) is not None
        assert await states.until("down", 2.0) <= 1.0
    with serving(llama_model, slots=1, port=port):
        await states.until("half_open", 11.0)
        assert await attempt(fleet, upstream) is None
        await states.until("serving", 1.0)
    await fleet.stop()
