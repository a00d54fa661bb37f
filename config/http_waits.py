"""How long does a connection wait: for a head to be complete, and at rest for the next one?

A request costs no timer. The one that looks for a connection at rest looks again later where it
finds one at work, and a head that comes whole in one read is never waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Waits:
    """``late`` is called once a head was waited for as long as it may take, ``idle`` once the
    connection was at rest for ``idle_timeout_s``."""

    __slots__ = (
        "_head_timeout_s",
        "_idle",
        "_idle_timeout_s",
        "_late",
        "_loop",
        "_rest_timer",
        "head_timer",
        "since_s",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        head_timeout_s: float,
        idle_timeout_s: float,
        late: Callable[[], None],
        idle: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._head_timeout_s = head_timeout_s
        self._idle_timeout_s = idle_timeout_s
        self._late = late
        self._idle = idle
        self.head_timer: asyncio.TimerHandle | None = None  # None: no head is waited for
        self._rest_timer: asyncio.TimerHandle | None = None
        self.since_s: float | None = None  # at rest; None: at work

    def for_head(self) -> None:
        """No longer than from the first time that this was said of a head."""
        if self.head_timer is None:
            self.head_timer = self._loop.call_later(self._head_timeout_s, self._late)

    def head_ended(self) -> None:
        if self.head_timer is not None:
            self.head_timer.cancel()
            self.head_timer = None

    def at_rest(self) -> None:
        self.since_s = self._loop.time()
        if self._rest_timer is None:
            self._rest_timer = self._loop.call_later(self._idle_timeout_s, self._look)

    def ended(self) -> None:
        """Nothing is called any more, and the ring of connection and waits is open."""
        self.head_ended()
        if self._rest_timer is not None:
            self._rest_timer.cancel()
        self._late = self._idle = _nothing

    def _look(self) -> None:
        self._rest_timer = None
        if self.since_s is None:
            return
        left_s = self.since_s + self._idle_timeout_s - self._loop.time()
        if left_s > 0:
            self._rest_timer = self._loop.call_later(left_s, self._look)
        else:
            self._idle()


def _nothing() -> None:
    pass
