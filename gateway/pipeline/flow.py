"""The asyncio face of one pool's dispatcher: effects become futures, one timer wakes it.

The dispatcher decides; this file only waits. There is no await between a decision and its effect,
so a grant is either handed to the call that waits for it or given back at once. A grant that is
taken back cancels the block that holds it, which leaves with ``Preempted``.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from types import TracebackType

from gateway.core.clock import Clock
from gateway.core.dispatch.dispatcher import Dispatcher
from gateway.core.dispatch.effects import (
    Effect,
    Failure,
    Grant,
    PoolConfig,
    PoolView,
    Preempt,
    Refuse,
    ReplicaHealth,
    ReplicaTelemetry,
    Ticket,
    Usage,
)
from gateway.core.errors import Evicted, Preempted


@dataclass(slots=True)
class Lease:
    """One slot of one replica while it is held. Set ``usage`` before leaving to correct the charge;
    ``refund`` gives the charge back (the attempt failed before any content); ``failure`` says what
    the replica did. ``preempted``: the slot has been taken back."""

    grant: Grant
    _flow: PoolFlow
    usage: Usage | None = None
    refund: bool = False
    failure: Failure | None = None
    preempted: bool = False
    _holder: asyncio.Task[object] | None = None

    def first_event(self) -> None:
        self._flow.first_event(self.grant.grant_id)

    def progress(self, output_tokens: int) -> None:
        self._flow.progress(self.grant.grant_id, output_tokens)

    def relayed(self) -> None:
        """The caller has received content: the slot is not taken back any more."""
        self._flow.relayed(self.grant.grant_id)

    def take_back(self) -> None:
        """Cancels the block that holds it. Not from within that block."""
        if self._holder is not None and not self.preempted:
            self.preempted = self.refund = True
            self._holder.cancel()

    def hold(self) -> None:
        self._holder = asyncio.current_task()

    def leave(self) -> bool:
        """True when the block ended because the slot was taken back, and for no other cause."""
        holder, self._holder = self._holder, None
        return self.preempted and holder is not None and holder.uncancel() == 0


class Granted:
    """An async context around the use of one slot."""

    __slots__ = ("_flow", "_lease", "_ticket")

    def __init__(self, flow: PoolFlow, ticket: Ticket) -> None:
        self._flow = flow
        self._ticket = ticket

    async def __aenter__(self) -> Lease:
        self._lease = await self._flow.enter(self._ticket)
        return self._lease

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        taken_back = self._flow.leave(self._lease)
        if taken_back and isinstance(error, asyncio.CancelledError):
            raise Preempted from error


class PoolFlow:
    def __init__(self, dispatcher: Dispatcher, clock: Clock) -> None:
        self._dispatcher = dispatcher
        self._clock = clock
        self._waiting: dict[str, asyncio.Future[Grant]] = {}
        self._asked_s: dict[str, float] = {}  # since when they wait
        self._leases: dict[int, Lease] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_s = 0.0

    def grant(self, ticket: Ticket) -> Granted:
        """Waits for a slot and holds it. Raises Evicted when the call leaves the queue without
        one, Preempted when the slot is taken back."""
        return Granted(self, ticket)

    async def enter(self, ticket: Ticket) -> Lease:
        lease = Lease(await self._granted(ticket), self)
        self._leases[lease.grant.grant_id] = lease
        lease.hold()
        return lease

    def leave(self, lease: Lease) -> bool:
        """True: the block ended because the slot was taken back."""
        taken_back = lease.leave()
        del self._leases[lease.grant.grant_id]
        self._release(lease)
        return taken_back

    def _release(self, lease: Lease) -> None:
        effects = self._dispatcher.release(
            lease.grant.grant_id,
            lease.usage,
            self._clock.monotonic(),
            refund=lease.refund,
            failure=lease.failure,
        )
        self._act(effects)

    async def _granted(self, ticket: Ticket) -> Grant:
        future: asyncio.Future[Grant] = asyncio.get_running_loop().create_future()
        now_s = self._clock.monotonic()
        self._waiting[ticket.call_id], self._asked_s[ticket.call_id] = future, now_s
        granted = False
        try:
            self._act(self._dispatcher.submit(ticket, now_s))
            grant = future.result() if future.done() else await future
            granted = True
            return grant
        finally:
            del self._asked_s[ticket.call_id]
            if not granted:
                self._left(ticket.call_id, future)

    def _left(self, call_id: str, future: asyncio.Future[Grant]) -> None:
        """The caller is gone: out of the queue, or, if a grant crossed with it, give that back. One
        that was refused has left already."""
        now_s = self._clock.monotonic()
        if self._waiting.pop(call_id, None) is not None:
            self._act(self._dispatcher.withdraw(call_id, now_s))
        elif future.done() and not future.cancelled() and future.exception() is None:
            grant_id = future.result().grant_id
            self._act(self._dispatcher.release(grant_id, None, now_s, refund=True))

    def first_event(self, grant_id: int) -> None:
        self._act(self._dispatcher.first_event(grant_id, self._clock.monotonic()))

    def progress(self, grant_id: int, output_tokens: int) -> None:
        self._act(self._dispatcher.progress(grant_id, output_tokens, self._clock.monotonic()))

    def relayed(self, grant_id: int) -> None:
        self._act(self._dispatcher.relayed(grant_id, self._clock.monotonic()))

    def apply(self, change: PoolConfig | ReplicaHealth | ReplicaTelemetry) -> None:
        self._act(self._dispatcher.apply(change, self._clock.monotonic()))

    def drain(self) -> None:
        """Every queued call is refused at once, and every later one."""
        self._act(self._dispatcher.drain(self._clock.monotonic()))

    @property
    def serves(self) -> bool:
        return self._dispatcher.serves

    def view(self) -> PoolView:
        return self._dispatcher.view()

    def _act(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Preempt):
                asyncio.get_running_loop().call_soon(self._take_back, effect.grant_id)
                continue
            future = self._waiting.pop(effect.call_id, None)
            assert future is not None, f"effect for a call that does not wait: {effect}"
            if isinstance(effect, Grant):
                self._hand_over(effect, future)
            elif isinstance(effect, Refuse) and not future.done():
                future.set_exception(self._evicted(effect))
        self._arm()

    def _evicted(self, refuse: Refuse) -> Evicted:
        evicted = Evicted(refuse.reason, refuse.message, retry_after_s=refuse.retry_after_s)
        evicted.waited_s = self._clock.monotonic() - self._asked_s[refuse.call_id]
        return evicted

    def _take_back(self, grant_id: int) -> None:
        """Called by the loop, so that no block cancels itself. One that has ended is left alone."""
        lease = self._leases.get(grant_id)
        if lease is not None:
            lease.take_back()

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
