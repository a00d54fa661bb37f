"""One per process: turns events into what browsers see, once a second.

``on_event`` (on the loop) only puts an event aside. A thread of the feed's own owns the live state:
it takes the events, reads the tenancy when its version changed, draws the panels of every audience
that somebody watches. The loop then wakes the subscribers. A subscriber gets the newest moment,
never a queue: a slow browser skips moments and piles nothing up.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import structlog
from django.db import DatabaseError, close_old_connections, connection

from dashboard.live.audience import Audience
from dashboard.live.facts import FleetFacts, Tenancy
from dashboard.live.messages import FigureCache, Moment, panels
from dashboard.live.relay import LIVE_EVENTS, Layer, receive
from dashboard.live.state import LiveState
from dashboard.settings import DashboardSettings
from gateway.core.events import Event

log = structlog.get_logger(__name__)

WAITING_EVENTS = 600
NO_TENANCY = Tenancy(version=-1, policies={})

ReadTenancy = Callable[[Tenancy], Tenancy]
Moments = Mapping[Audience, Moment]


class Subscription:
    """One socket's view: ``next`` waits for a moment that is newer than the last one it gave."""

    def __init__(self, audience: Audience) -> None:
        self.audience = audience
        self._newest: Moment | None = None
        self._wake = asyncio.Event()

    def offer(self, moment: Moment) -> None:
        self._newest = moment
        self._wake.set()

    async def next(self) -> Moment:
        await self._wake.wait()
        self._wake.clear()
        assert self._newest is not None
        return self._newest


class LiveFeed:
    """``read_tenancy`` runs in the feed's thread; it gets its last answer and may return that.

    ``layer`` is given where the gateway lives in another process.
    """

    def __init__(
        self,
        settings: DashboardSettings,
        *,
        read_tenancy: ReadTenancy,
        layer: Layer | None = None,
    ) -> None:
        self._artist = _Artist(settings, read_tenancy)
        self._layer = layer
        self._inbox: deque[Event] = deque(maxlen=WAITING_EVENTS)
        self._wake = asyncio.Event()
        self._subscriptions: set[Subscription] = set()
        self._moments: Moments = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._thread = ThreadPoolExecutor(1, "live-feed")

    def on_event(self, event: Event) -> None:
        """A sink of the gateway's event bus."""
        if type(event).__name__ in LIVE_EVENTS:
            self._inbox.append(event)
            self._wake.set()

    def facts(self, audience: Audience) -> FleetFacts:
        """For the first drawing of a page. Any thread."""
        return audience.cut(self._artist.facts)

    @contextmanager
    def subscribe(self, audience: Audience) -> Iterator[Subscription]:
        """The newest moment comes at once when there is one, else as soon as it is drawn."""
        subscription = Subscription(audience)
        self._subscriptions.add(subscription)
        if moment := self._moments.get(audience):
            subscription.offer(moment)
        else:
            self._wake.set()
        try:
            yield subscription
        finally:
            self._subscriptions.discard(subscription)

    async def start(self) -> None:
        self._wake.set()
        self._tasks.append(asyncio.create_task(self._draw_for_ever(), name="live-feed"))
        if self._layer is not None:
            listen = self._listen(self._layer)
            self._tasks.append(asyncio.create_task(listen, name="live-layer"))
        for task in self._tasks:
            task.add_done_callback(_tell_failure)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._thread.submit(lambda: connection.close())  # that of the thread, not of the caller
        self._thread.shutdown(wait=False)

    async def _listen(self, layer: Layer) -> None:
        async for event in receive(layer):
            self.on_event(event)

    async def _draw_for_ever(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._wake.wait()
            self._wake.clear()
            events = [self._inbox.popleft() for _ in range(len(self._inbox))]
            watched = Counter(one.audience for one in self._subscriptions)
            self._moments = await loop.run_in_executor(
                self._thread, self._artist.draw, events, frozenset(watched)
            )
            for subscription in tuple(self._subscriptions):
                if moment := self._moments.get(subscription.audience):
                    subscription.offer(moment)
                else:
                    self._wake.set()  # came while the others were drawn


class _Artist:
    """Everything that happens in the feed's thread."""

    def __init__(self, settings: DashboardSettings, read_tenancy: ReadTenancy) -> None:
        self._state = LiveState(settings)
        self._read_tenancy = read_tenancy
        self._tenancy = NO_TENANCY
        self._figures = FigureCache()
        self._seq = 0
        self.facts = self._state.facts(NO_TENANCY)

    def draw(self, events: list[Event], audiences: frozenset[Audience]) -> Moments:
        for event in events:
            self._state.take(event)
        self._refresh_tenancy()
        self.facts = fleet = self._state.facts(self._tenancy)
        self._figures.keep_only(audiences)
        self._seq += 1
        return {audience: self._moment(audience.cut(fleet), audience) for audience in audiences}

    def _moment(self, facts: FleetFacts, audience: Audience) -> Moment:
        drawn = self._figures.figures(facts, audience)
        return Moment(self._seq, facts, panels(facts, audience), drawn)

    def _refresh_tenancy(self) -> None:
        close_old_connections()
        try:
            self._tenancy = self._read_tenancy(self._tenancy)
        except DatabaseError as error:
            log.warning("live_tenancy_unread", error=type(error).__name__)


def _tell_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("live_task_failed", task=task.get_name(), exc_info=error)
