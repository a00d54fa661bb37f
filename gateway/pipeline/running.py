"""Which calls run in this process, and how is one ended from outside?

Whoever ends a call (its client by leaving, an operator, a revoked key, the end of the drain grace)
names the reason; the call's own task is cancelled where it stands, its context managers give back
slot, reservation and connection, and at the outer edge the cancellation becomes a CallError. Of a
crowd only a few are cancelled in one turn of the loop (``pace``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self

from gateway.core.errors import CallError, Interrupted
from gateway.core.reasons import Reason
from gateway.pipeline.call import Call
from gateway.pipeline.pace import Pace


class Interruption:
    """A context around one call's task: while it lasts, the call can be interrupted from
    outside."""

    __slots__ = ("_cancelled", "_error", "_running", "_task", "call")

    def __init__(self, running: RunningCalls, call: Call) -> None:
        self._running = running
        self.call = call
        self._task: asyncio.Task[object] | None = None
        self._error: CallError | None = None
        self._cancelled = False

    def interrupt(self, error: CallError) -> None:
        """Soon; the first reason counts. After the block has ended it does nothing."""
        if self._task is not None and self._error is None:
            self._error = error
            self._running.pace.add(self._cancel)

    def _cancel(self) -> None:
        if self._task is not None:
            self._cancelled = True
            self._task.cancel()

    def __enter__(self) -> Self:
        self._running.enter(self)
        self._task = asyncio.current_task()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._running.leave(self)
        task, self._task = self._task, None
        if self._error is None or task is None or not self._cancelled:
            return
        others = task.uncancel()
        if isinstance(error, asyncio.CancelledError) and not others:
            raise self._error from error


class RunningCalls:
    def __init__(self) -> None:
        self.pace = Pace()
        self._running: dict[str, Interruption] = {}  # by call id
        self._none_left = asyncio.Event()
        self._none_left.set()

    def __len__(self) -> int:
        return len(self._running)

    def __iter__(self) -> Iterator[Call]:
        return (each.call for each in tuple(self._running.values()))

    def entered(self, call: Call) -> Interruption:
        return Interruption(self, call)

    def enter(self, interruption: Interruption) -> None:
        if not self._running:
            self._none_left.clear()
        self._running[interruption.call.call_id] = interruption

    def leave(self, interruption: Interruption) -> None:
        del self._running[interruption.call.call_id]
        if not self._running:
            self._none_left.set()

    def interrupt(self, condemned: Callable[[Call], Reason | None]) -> int:
        """Ends every call for which ``condemned`` names a reason; returns how many."""
        count = 0
        for interruption in tuple(self._running.values()):
            if (reason := condemned(interruption.call)) is not None:
                interruption.interrupt(Interrupted(reason))
                count += 1
        return count

    async def none_left(self) -> None:
        await self._none_left.wait()
