"""Which connection does the next request to one replica use?

The one that was used last, if it is still good, else a new one. Kept connections are closed after
KEEP_ALIVE_S, before the server does that (servers wait 5 s), and at most MOST_KEPT are kept; how
many are in use is bounded by the scheduler, not here. A kept connection is asked whether it is
quiet in the moment in which it is used: one that the server has closed is never written to, and
nothing that was written is ever sent again. Units: seconds of the loop's clock.
"""

from __future__ import annotations

import asyncio
from collections import deque

from gateway.replicas.adapters import adapter_of
from gateway.replicas.http1.connection import Connection
from gateway.replicas.http1.dialing import Dialer, Origin
from gateway.replicas.upstream import ReplicaTarget

KEEP_ALIVE_S = 4.0
MOST_KEPT = 512


class Pool:
    """The connections to one replica object. ``is_one_shot``: no connection is used twice, whatever
    the server announces. ``fields``: what every request says."""

    def __init__(self, target: ReplicaTarget, dialer: Dialer) -> None:
        self.target = target
        self.origin = Origin.of(target.base_url)
        self.is_one_shot = adapter_of(target.kind).closes_after_stream
        self.fields = {"host": self.origin.field, "accept-encoding": "identity"}
        if target.api_key:
            self.fields["authorization"] = f"Bearer {target.api_key}"
        if self.is_one_shot:
            self.fields["connection"] = "close"
        self._dialer = dialer
        self._open: set[Connection] = set()
        self._kept: deque[tuple[Connection, float]] = deque()  # and since when, the oldest first
        self._timer: asyncio.TimerHandle | None = None

    def kept(self) -> Connection | None:
        """One that was used before. Give it back, or abort it."""
        while self._kept:
            connection, _ = self._kept.pop()
            if connection.is_quiet:
                return connection
            connection.abort()
        return None

    async def dialed(self, timeout_s: float) -> Connection:
        """A new one. Give it back, or abort it. Raises OSError or ValueError: nothing was sent."""
        made = await self._dialer.dial(self.origin, timeout_s, self._new)
        if not made.is_lost:
            self._open.add(made)
        return made

    def give_back(self, connection: Connection) -> None:
        """After an exchange, however it ended."""
        if self.is_one_shot or not connection.is_reusable or len(self._kept) >= MOST_KEPT:
            connection.abort()
            return
        loop = asyncio.get_running_loop()
        self._kept.append((connection, loop.time()))
        if self._timer is None:
            self._timer = loop.call_later(KEEP_ALIVE_S, self._expire)

    def close(self) -> None:
        """What runs over its connections ends with an error."""
        if self._timer is not None:
            self._timer.cancel()
        self._kept.clear()
        self.is_one_shot = True
        for connection in tuple(self._open):
            connection.abort()

    def _new(self) -> Connection:
        return Connection(self._lost)

    def _lost(self, connection: Connection) -> None:
        self._open.discard(connection)
        if any(kept is connection for kept, _ in self._kept):
            left = [each for each in self._kept if each[0] is not connection]
            self._kept = deque(left)

    def _expire(self) -> None:
        loop = asyncio.get_running_loop()
        while self._kept and loop.time() >= self._kept[0][1] + KEEP_ALIVE_S:
            self._kept.popleft()[0].abort()
        self._timer = None
        if self._kept:
            self._timer = loop.call_at(self._kept[0][1] + KEEP_ALIVE_S, self._expire)
