"""Where do events go? To every sink, without the publisher ever waiting.

Two kinds of sinks. A *queued* sink owns a bounded queue that one task (`run`) empties on the
loop; a *direct* sink takes or refuses the event at once (the journal, which has a queue and a
thread of its own). A sink that is full loses the event, and the loss is counted, by sink:
nothing is lost silently. A sink may name the kinds that it is for; the others are not offered to
it.

All methods belong to the event loop's thread, except `publish_from_thread`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from gateway.core.events import Event

Handle = Callable[[Event], None]
Offer = Callable[[Event], bool]
Kinds = frozenset[type[Event]]
CAPACITY_EVENTS = 10_000
BATCH_EVENTS = 200  # handled between two turns of the loop


@dataclass(slots=True)
class _QueuedSink:
    name: str
    handle: Handle
    capacity: int
    kinds: Kinds | None
    waiting: deque[Event] = field(default_factory=deque)


_Hearers = tuple[list[tuple[str, Offer]], list[_QueuedSink]]


class EventBus:
    """``on_drop`` is told the name of a sink that was full, once per lost event."""

    def __init__(self, on_drop: Callable[[str], None]) -> None:
        self._on_drop = on_drop
        self._direct: list[tuple[str, Offer, Kinds | None]] = []
        self._queued: list[_QueuedSink] = []
        self._for: dict[type[Event], _Hearers] = {}  # by kind, as asked for
        self._wake = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def add(
        self,
        name: str,
        handle: Handle,
        kinds: Kinds | None = None,
        *,
        capacity: int = CAPACITY_EVENTS,
    ) -> None:
        """``handle`` runs on the loop a moment later; it must be quick and must not block."""
        self._queued.append(_QueuedSink(name, handle, capacity, kinds))
        self._for.clear()

    def add_direct(self, name: str, offer: Offer, kinds: Kinds | None = None) -> None:
        """``offer`` runs inside `publish` and returns whether it took the event."""
        self._direct.append((name, offer, kinds))
        self._for.clear()

    def publish(self, event: Event) -> None:
        hearers = self._for.get(type(event))
        if hearers is None:
            hearers = self._for[type(event)] = self._hearers(type(event))
        direct, queued = hearers
        for name, offer in direct:
            if not offer(event):
                self._on_drop(name)
        if not queued:
            return
        for sink in queued:
            if len(sink.waiting) < sink.capacity:
                sink.waiting.append(event)
            else:
                self._on_drop(sink.name)
        if not self._wake.is_set():
            self._wake.set()

    def _hearers(self, kind: type[Event]) -> _Hearers:
        direct, queued = self._direct, self._queued
        return (
            [(name, offer) for name, offer, kinds in direct if kinds is None or kind in kinds],
            [sink for sink in queued if sink.kinds is None or kind in sink.kinds],
        )

    def publish_from_thread(self, event: Event) -> None:
        """For the threads of the snapshot and the ledger. After the loop has ended it does
        nothing."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.publish, event)

    async def run(self) -> None:
        """Empties the queued sinks for ever. A handler that raises ends it; the event is then
        gone, so that its supervisor can start it again without meeting the same event."""
        self._loop = asyncio.get_running_loop()
        while True:
            await self._wake.wait()
            self._wake.clear()
            if self._drain_some():
                self._wake.set()
            await asyncio.sleep(0)

    def drain(self) -> None:
        """Hands over everything that waits, at shutdown."""
        while self._drain_some():
            pass

    def _drain_some(self) -> bool:
        """Whether something still waits."""
        left = False
        for sink in self._queued:
            waiting, handle = sink.waiting, sink.handle
            for _ in range(min(BATCH_EVENTS, len(waiting))):
                handle(waiting.popleft())
            left = left or bool(waiting)
        return left
