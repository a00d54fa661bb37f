"""How long is silence borne? A timer of one call that costs nothing per token.

``Patience`` bounds a block by a limit that the block keeps moving: the one armed timer asks for it
when it fires and, if there is time left, arms itself again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Self

from gateway.core.errors import CallError

RECHECK_S = 1.0  # while excused
TICK_S = 0.001  # a timer may fire a rounding error early


class Patience:
    """A context: once ``until_s()`` has passed by the clock ``now``, ``error()`` is asked at that
    moment, the block is cancelled and the error raised from it. ``excused`` postpones: time that
    the caller itself spends not reading is not silence."""

    __slots__ = (
        "_before",
        "_error",
        "_excused",
        "_found",
        "_looks_at_s",
        "_now",
        "_task",
        "_timer",
        "_until_s",
    )

    def __init__(
        self,
        now: Callable[[], float],
        until_s: Callable[[], float],
        error: Callable[[], CallError],
        excused: Callable[[], bool] = lambda: False,
    ) -> None:
        self._now = now
        self._until_s = until_s
        self._error = error
        self._excused = excused
        self._task: asyncio.Task[object] | None = None
        self._before = 0  # cancellations that were asked for by others
        self._timer: asyncio.TimerHandle | None = None
        self._looks_at_s = 0.0
        self._found: CallError | None = None

    def lessened(self) -> None:
        """The limit may be nearer than it was."""
        if self._until_s() < self._looks_at_s:
            self._arm(self._until_s())

    def __enter__(self) -> Self:
        self._task = asyncio.current_task()
        self._before = self._task.cancelling() if self._task is not None else 0
        self._arm(self._until_s())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        task, self._task = self._task, None
        if self._timer is not None:
            self._timer.cancel()
        if self._found is None or task is None:
            return
        others = task.uncancel() > self._before
        if isinstance(error, asyncio.CancelledError) and not others:
            raise self._found from error

    def _arm(self, at_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._looks_at_s = at_s
        wait_s = max(TICK_S, at_s - self._now())
        self._timer = asyncio.get_running_loop().call_later(wait_s, self._look)

    def _look(self) -> None:
        self._timer = None
        now_s, until_s = self._now(), self._until_s()
        if now_s < until_s:
            self._arm(until_s)
        elif self._excused():
            self._arm(now_s + RECHECK_S)
        elif self._task is not None:
            self._found = self._error()  # what comes before the cancellation changes nothing
            self._task.cancel()
