"""How do events reach the pages of another process? Over a channel-layer group, as msgpack.

``LivePublisher`` is a sink of the gateway; only what pages need travels. When the layer is away or
slow the newest events wait, older ones are dropped, and the gateway never waits. The other end is
``receive``, which ``LiveFeed`` runs. An envelope is ``[name of the type, value]``; unknown names
are skipped, so that two versions can run side by side.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import AsyncIterator
from typing import Any, Protocol

import msgspec
import structlog
from redis.exceptions import RedisError

from gateway.core.events import ConfigApplied, Degraded, Event, Restored, SummarySecond

log = structlog.get_logger(__name__)

GROUP = "live"
MESSAGE_TYPE = "live.event"
WAITING_EVENTS = 30
RETRY_S = 1.0
LIVE_EVENTS: dict[str, type[Any]] = {
    kind.__name__: kind for kind in (SummarySecond, ConfigApplied, Degraded, Restored)
}
LAYER_ERRORS = (RedisError, OSError)

_envelope = msgspec.msgpack.Decoder(tuple[str, msgspec.Raw])
_decoders = {name: msgspec.msgpack.Decoder(kind) for name, kind in LIVE_EVENTS.items()}


class Layer(Protocol):
    """The part of a Channels layer that is used."""

    async def new_channel(self, prefix: str = ...) -> str: ...
    async def group_add(self, group: str, channel: str) -> None: ...
    async def group_discard(self, group: str, channel: str) -> None: ...
    async def group_send(self, group: str, message: dict[str, Any]) -> None: ...
    async def receive(self, channel: str) -> dict[str, Any]: ...


def pack(event: Event) -> bytes:
    return msgspec.msgpack.encode((type(event).__name__, event))


def unpack(body: bytes) -> Event | None:
    """None for a type this version does not know. Raises msgspec.MsgspecError for garbage."""
    name, raw = _envelope.decode(body)
    decoder = _decoders.get(name)
    if decoder is None:
        return None
    event: Event = decoder.decode(raw)
    return event


class LivePublisher:
    """The gateway's side."""

    def __init__(self, layer: Layer) -> None:
        self._layer = layer
        self._waiting: deque[Event] = deque(maxlen=WAITING_EVENTS)
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def on_event(self, event: Event) -> None:
        if type(event).__name__ in LIVE_EVENTS:
            self._waiting.append(event)
            self._wake.set()

    async def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="live-publisher")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                await self._send(self._waiting.popleft())

    async def _send(self, event: Event) -> None:
        try:
            async with asyncio.timeout(RETRY_S):
                message = {"type": MESSAGE_TYPE, "body": pack(event)}
                await self._layer.group_send(GROUP, message)
        except (*LAYER_ERRORS, TimeoutError) as error:
            log.warning("live_event_lost", error=type(error).__name__)


async def receive(layer: Layer) -> AsyncIterator[Event]:
    """Every event that a gateway publishes, for ever; reconnects with jitter."""
    while True:
        try:
            channel = await layer.new_channel()
            await layer.group_add(GROUP, channel)
            while True:
                message = await layer.receive(channel)
                event = unpack(message["body"])
                if event is not None:
                    yield event
        except LAYER_ERRORS as error:
            log.warning("live_layer_lost", error=type(error).__name__)
            await asyncio.sleep(RETRY_S * random.uniform(0.5, 1.5))
