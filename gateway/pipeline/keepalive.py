"""When is a silent stream told that it is alive?

A streamed call that is still open 10 s after dispatch (its admission is then certain), or 30 s
after arrival, is committed early with a comment; then a comment follows every 15 s of silence,
because proxies and clients cut connections that say nothing. Comments are invisible to every SSE
client; an API that has an event of its own for this (``ping``) gets that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Self

from gateway.pipeline.call import Call
from gateway.pipeline.caller import done
from gateway.pipeline.reply import Headers, Reply, Stage

AFTER_ARRIVAL_S = 30.0
AFTER_DISPATCH_S = 10.0
TICK_S = 0.001  # a timer may fire a rounding error early


class KeepAlive:
    """An async context around the waiting and streaming of one call; inert without a stream.

    The timer costs nothing per frame: when it fires it asks the reply when it last spoke.
    """

    def __init__(
        self, call: Call, reply: Reply, headers: Callable[[], Headers], silence_s: float
    ) -> None:
        self._enabled = call.body is not None and call.body.stream
        self._clock = call.clock
        self._reply = reply
        self._headers = headers
        self._silence_s = silence_s
        self._frame = call.style.keep_alive
        self._commit_s = call.clock.arrive_s + AFTER_ARRIVAL_S
        self._timer: asyncio.TimerHandle | None = None
        self._comment: asyncio.Task[None] | None = None

    def dispatched(self) -> None:
        self._commit_s = min(self._commit_s, self._clock.now() + AFTER_DISPATCH_S)
        self._arm()

    async def __aenter__(self) -> Self:
        self._arm()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._enabled = False
        if self._timer is not None:
            self._timer.cancel()
        if self._comment is not None and not self._comment.done():
            if kind is not None and issubclass(kind, asyncio.CancelledError):
                self._comment.cancel()
            else:
                await self._comment  # half a head must not be left behind

    @property
    def _due_s(self) -> float:
        if self._reply.stage is Stage.OPEN:
            return self._commit_s
        return self._reply.spoke_s + self._silence_s

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._enabled:
            delay_s = max(TICK_S, self._due_s - self._clock.now())
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._look)

    async def _say(self) -> None:
        await done(self._reply.commit(self._headers, self._frame))

    def _look(self) -> None:
        if self._reply.blocked:
            self._commit_s = self._clock.now() + self._silence_s
        elif self._clock.now() >= self._due_s:
            self._comment = asyncio.get_running_loop().create_task(
                self._say(), name="keep-alive comment"
            )
            self._reply.spoke_s = self._clock.now()
        self._arm()
