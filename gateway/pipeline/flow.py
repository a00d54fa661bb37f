"""The asyncio face of one pool's dispatcher: effects become futures, one timer wakes it.

The dispatcher decides; this file only waits, and not even that where a slot is free. There is no
await between a decision and its effect, so a grant is either handed to the call that waits for it
or given back at once. A grant that is taken back cancels the block that holds it, which leaves with
``Preempted``. The timer may be early, since what it was set for may be over: that is a look for
nothing, and cheaper than to set it anew for every call.
"""

from __future__ import annotations

import asyncio
from types import TracebackType

import msgspec

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
from gateway.core.priority import PriorityClass


class Lease(msgspec.Struct, eq=False):
    """One slot of one replica while it is held. Set ``usage`` before leaving to correct the charge;
    ``refund`` gives the charge back (the attempt failed before any content); ``failure`` says what
    the replica did. ``preempted``: the slot has been taken back. ``_holder``: the task of a call
    whose slot may be."""

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

    def may_be_taken_back(self) -> None:
        """Of the block that the present task runs."""
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
        flow, ticket = self._flow, self._ticket
        self._lease = lease = flow.enter(await flow.granted(ticket))
        if ticket.klass is PriorityClass.BATCH:
            lease.may_be_taken_back()
        return lease

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

    def enter(self, grant: Grant) -> Lease:
        lease = self._leases[grant.grant_id] = Lease(grant, self)
        return lease

    def leave(self, lease: Lease) -> bool:
        """True: the block ended because the slot was taken back."""
        taken_back = lease.preempted and lease.leave()
        grant_id = lease.grant.grant_id
        del self._leases[grant_id]
        effects = self._dispatcher.release(
            grant_id,
            lease.usage,
            self._clock.monotonic(),
            refund=lease.refund,
            failure=lease.failure,
        )
        self._act(effects)
        return taken_back

    async def granted(self, ticket: Ticket) -> Grant:
        asked = self._ask(ticket)
        if isinstance(asked, Grant):
            return asked
        granted = False
        try:
            grant = asked.result() if asked.done() else await asked
            granted = True
            return grant
        finally:
            del self._asked_s[ticket.call_id]
            if not granted:
                self._left(ticket.call_id, asked)

    def _ask(self, ticket: Ticket) -> Grant | asyncio.Future[Grant]:
        """The grant where a slot is free for it, else what it waits for."""
        now_s = self._clock.monotonic()
        effects = self._dispatcher.submit(ticket, now_s)
        first = effects[0] if len(effects) == 1 else None
        if isinstance(first, Grant) and first.call_id == ticket.call_id:
            return first
        future: asyncio.Future[Grant] = asyncio.get_running_loop().create_future()
        self._waiting[ticket.call_id], self._asked_s[ticket.call_id] = future, now_s
        self._act(effects)
        return future

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
        if effects:
            self._carry_out(effects)
        wake_s = self._dispatcher.next_wake
        if wake_s is not None and (self._timer is None or wake_s < self._timer_at_s):
            self._arm(wake_s)

    def _carry_out(self, effects: list[Effect]) -> None:
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

    def _arm(self, wake_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        delay_s = max(0.0, wake_s - self._clock.monotonic())
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._wake)
        self._timer_at_s = wake_s

    def _wake(self) -> None:
        self._timer = None
        self._act(self._dispatcher.wake(self._clock.monotonic()))
