"""How long is silence borne? Timers of one call that cost nothing per token.

``Patience`` bounds a block by a limit that the block itself keeps moving: a token only stores the
new limit; the one armed timer looks at it when it fires and, if there is time left, arms itself
again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Self

from gateway.core.clock import Clock
from gateway.core.errors import CallError

RECHECK_S = 1.0  # while excused
TICK_S = 0.001  # a timer may fire a rounding error early


class Patience:
    """An async context: once ``until_s`` has passed, ``error()`` is asked at that moment, the block
    is cancelled and the error raised from it. ``excused`` postpones: time that the caller itself
    spends not reading is not silence."""

    def __init__(
        self,
        clock: Clock,
        until_s: float,
        error: Callable[[], CallError],
        excused: Callable[[], bool] = lambda: False,
    ) -> None:
        self._clock = clock
        self._until_s = until_s
        self._error = error
        self._excused = excused
        self._timeout = asyncio.timeout(None)
        self._timer: asyncio.TimerHandle | None = None
        self._found: CallError | None = None

    def extend(self, until_s: float) -> None:
        """Moves the limit. An earlier limit than the armed one takes effect at once."""
        earlier = until_s < self._until_s
        self._until_s = until_s
        if earlier:
            self._arm()

    async def __aenter__(self) -> Self:
        await self._timeout.__aenter__()
        self._arm()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError:
            raise (self._found or self._error()) from error

    def _arm(self, delay_s: float | None = None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        wait_s = self._until_s - self._clock.monotonic() if delay_s is None else delay_s
        self._timer = asyncio.get_running_loop().call_later(max(TICK_S, wait_s), self._look)

    def _look(self) -> None:
        self._timer = None
        now_s = self._clock.monotonic()
        if now_s < self._until_s:
            self._arm()
        elif self._excused():
            self._arm(RECHECK_S)
        else:
            self._found = self._error()  # what comes before the cancellation changes nothing
            self._timeout.reschedule(asyncio.get_running_loop().time())
