"""The asyncio face of one pool's dispatcher: effects become futures, one timer wakes it.

The dispatcher decides; this file only waits. There is no await between a decision and its effect,
so a grant is either handed to the call that waits for it or given back at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from gateway.core.clock import Clock
from gateway.core.dispatch.dispatcher import Dispatcher
from gateway.core.dispatch.effects import (
    Effect,
    Grant,
    PoolConfig,
    PoolView,
    Refuse,
    ReplicaHealth,
    ReplicaTelemetry,
    Ticket,
    Usage,
)
from gateway.core.errors import Evicted


@dataclass(slots=True)
class Lease:
    """One slot of one replica while it is held. Set ``usage`` before leaving to correct the charge;
    ``refund`` gives the charge back (the attempt failed before any content)."""

    grant: Grant
    _flow: PoolFlow
    usage: Usage | None = None
    refund: bool = False

    def first_event(self) -> None:
        self._flow.first_event(self.grant.grant_id)

    def progress(self, output_tokens: int) -> None:
        self._flow.progress(self.grant.grant_id, output_tokens)


class PoolFlow:
    def __init__(self, dispatcher: Dispatcher, clock: Clock) -> None:
        self._dispatcher = dispatcher
        self._clock = clock
        self._waiting: dict[str, asyncio.Future[Grant]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_s = 0.0

    @asynccontextmanager
    async def grant(self, ticket: Ticket) -> AsyncIterator[Lease]:
        """Waits for a slot and holds it. Raises Evicted when the call leaves the queue without
        one."""
        lease = Lease(await self._granted(ticket), self)
        try:
            yield lease
        finally:
            self._act(
                self._dispatcher.release(
                    lease.grant.grant_id, lease.usage, self._clock.monotonic(), refund=lease.refund
                )
            )

    async def _granted(self, ticket: Ticket) -> Grant:
        future: asyncio.Future[Grant] = asyncio.get_running_loop().create_future()
        self._waiting[ticket.call_id] = future
        self._act(self._dispatcher.submit(ticket, self._clock.monotonic()))
        try:
            return future.result() if future.done() else await future
        except asyncio.CancelledError:
            self._left(ticket.call_id, future)
            raise

    def _left(self, call_id: str, future: asyncio.Future[Grant]) -> None:
        """The caller is gone: out of the queue, or, if a grant crossed with it, give that back."""
        now_s = self._clock.monotonic()
        self._waiting.pop(call_id, None)
        if future.done() and not future.cancelled() and future.exception() is None:
            grant_id = future.result().grant_id
            self._act(self._dispatcher.release(grant_id, None, now_s, refund=True))
        else:
            self._act(self._dispatcher.withdraw(call_id, now_s))

    def first_event(self, grant_id: int) -> None:
        self._act(self._dispatcher.first_event(grant_id, self._clock.monotonic()))

    def progress(self, grant_id: int, output_tokens: int) -> None:
        self._act(self._dispatcher.progress(grant_id, output_tokens, self._clock.monotonic()))

    def apply(self, change: PoolConfig | ReplicaHealth | ReplicaTelemetry) -> None:
        self._act(self._dispatcher.apply(change, self._clock.monotonic()))

    def drain(self) -> None:
        """Every queued call is refused at once, and every later one."""
        self._act(self._dispatcher.drain(self._clock.monotonic()))

    def view(self) -> PoolView:
        return self._dispatcher.view()

    def _act(self, effects: list[Effect]) -> None:
        for effect in effects:
            future = self._waiting.pop(effect.call_id, None)
            assert future is not None, f"effect for a call that does not wait: {effect}"
            if isinstance(effect, Grant):
                self._hand_over(effect, future)
            elif isinstance(effect, Refuse) and not future.done():
                future.set_exception(
                    Evicted(effect.reason, effect.message, retry_after_s=effect.retry_after_s)
                )
        self._arm()

    def _hand_over(self, grant: Grant, future: asyncio.Future[Grant]) -> None:
        if not future.done():
            future.set_result(grant)
        else:  # cancelled in this very moment; its own handler no longer sees the grant
            now_s = self._clock.monotonic()
            self._act(self._dispatcher.release(grant.grant_id, None, now_s, refund=True))

    def _arm(self) -> None:
        wake_s = self._dispatcher.next_wake
        if self._timer is not None and (wake_s is None or wake_s != self._timer_at_s):
            self._timer.cancel()
            self._timer = None
        if self._timer is None and wake_s is not None:
            delay_s = max(0.0, wake_s - self._clock.monotonic())
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._wake)
            self._timer_at_s = wake_s

    def _wake(self) -> None:
        self._timer = None
        self._act(self._dispatcher.wake(self._clock.monotonic()))
