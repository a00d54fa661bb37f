"""When does a call get a slot, and on which replica?

One dispatcher per pool, for reality and simulation: pure and synchronous. Every method takes the
time and returns effects that the caller carries out: ``Grant`` (one lease on one slot of one
replica), ``Refuse`` (the call left the queue without one), ``Preempt`` (release the grant with
``refund``; the call asks again). ``next_wake`` is the time at which something happens by itself;
call ``wake`` then.

Whatever happens is handled in one order: the event is applied, what is over expires, then slots are
given out for as long as a replica is open (``start_rule``) and a call waits that may run there:

  class order (strict, with the two exceptions of ``class_order``), less what is held back
    -> fair queue of the class (least start tag), past tenants at their share of the batch
      -> routing policy among the open replicas (late binding)

If an interactive call then still waits, batch may have to give a slot back (``preemption``); if a
call that has just come still waits, something may have to be refused (``shedding``).

The replica is chosen at dispatch, never before, so a waiting call is lost by no change of the pool;
it is refused only when no replica can serve it. Local counts decide: a grant is counted when it is
given, and telemetry, which is late, only brakes.

Invariants
  * Work-conserving: after every method, no replica is open that a waiting call may use, but for
    classes that are held back.
  * A replica never holds more leases than its slots at the moment of the grant.
  * Per call: submit, then exactly one of grant, refusal, withdrawal; per grant: one release.
  * With nothing waiting and nothing in flight, every count is exactly 0.
  * A decision costs O(log flows + replicas), whatever the number of waiting calls.

Raises only for programming errors (an unknown grant, a call submitted twice, an unknown policy).
Units: monotonic seconds, service tokens. Source: algorithms of the modules that it puts together.
"""

from __future__ import annotations

import math
import random
from dataclasses import replace

from gateway.core.dispatch import refusals
from gateway.core.dispatch.bookings import SHORTEST_S, Bookings
from gateway.core.dispatch.conversations import Conversations
from gateway.core.dispatch.drain_rate import DrainRate
from gateway.core.dispatch.effects import (
    Effect,
    Failure,
    PoolConfig,
    PoolView,
    Preempt,
    Refuse,
    ReplicaHealth,
    ReplicaTelemetry,
    Ticket,
    Usage,
)
from gateway.core.dispatch.lease import estimated_cost
from gateway.core.dispatch.placement import Hears, Placement, Pool
from gateway.core.dispatch.pool_view import view_of
from gateway.core.dispatch.returning import ReturningFlows
from gateway.core.dispatch.running import RunningCalls
from gateway.core.dispatch.shedding import Shedding
from gateway.core.dispatch.start_rule import StartRule
from gateway.core.priority import PriorityClass
from gateway.core.queues.call import QueuedCall
from gateway.core.queues.waiting import WaitingCalls
from gateway.core.routing.roster import Roster
from gateway.core.routing.router import Router


class Dispatcher:
    def __init__(self, pool: str, config: PoolConfig, rng: random.Random, now_s: float) -> None:
        self._pool = pool
        self._config = config
        self._router = Router(config, rng)
        self._start = StartRule(config)
        self._roster = Roster(config.replicas, self._start.is_open)
        self._waiting = WaitingCalls(config)
        self._running = RunningCalls(config, self._waiting, self._roster, now_s)
        self._returning = ReturningFlows()
        self._rate = DrainRate(now_s)
        self._bookings = Bookings()
        self._shedding = Shedding(config, self._waiting.load, self._rate, self._bookings)
        self._conversations = Conversations()
        self._placement = Placement(
            config,
            Pool(self._waiting, self._running, self._roster, self._router, self._start),
            Hears(self._rate, self._shedding, self._conversations),
        )
        self._draining = False
        self._now_s = now_s

    # Events

    def submit(self, ticket: Ticket, now_s: float) -> list[Effect]:
        """A call asks for a slot. While draining only calls that ask again are taken."""
        effects = self._expire(now_s)
        if self._draining and not ticket.again:
            return [*effects, refusals.draining(ticket.call_id)]
        booked = not ticket.again and self._bookings.take(ticket, now_s)
        in_time_alone = not self._waiting.calls and now_s < ticket.deadline_s
        if in_time_alone and (grant := self._placement.at_once(ticket, now_s)) is not None:
            return [*effects, grant]
        bound = self._waiting.load.bound_reached(ticket, self._config)
        call = self._waiting.add(
            ticket,
            cost=estimated_cost(ticket),
            now_s=now_s,
            wait_limit_s=self._config.wait_limit_s[ticket.klass],
            booked=booked,
            follow_up=self._conversations.goes_on(ticket, now_s),
        )
        self._running.holdback.seen(ticket.klass, now_s)
        if not call.lane.meets(self._roster.admitting):
            return [*effects, self._refuse_stranded(call)]
        effects += self._proceed(now_s)  # its own deadline may be over
        if not call.goes_first and ticket.call_id in self._waiting:
            if bound is None:
                effects += self._shed(call, now_s)
            else:
                self._waiting.discard(ticket.call_id)
                after_s = self._shedding.booked_s(call, now_s)
                effects.append(refusals.queue_full(call, bound, after_s))
        return effects

    def withdraw(self, call_id: str, now_s: float) -> list[Effect]:
        """A call that waits is gone. No effect for one that does not wait."""
        self._waiting.discard(call_id)
        return self._proceed(now_s)

    def first_event(self, grant_id: int, now_s: float) -> list[Effect]:
        """The replica answered with any event: the call is in its batch."""
        replica = self._running.began(grant_id, now_s)
        self._router.first_event(grant_id, replica, now_s)
        self._start.started(replica.slug)
        self._roster.refresh(replica)
        return self._proceed(now_s)

    def progress(self, grant_id: int, output_tokens: int, now_s: float) -> list[Effect]:
        """``output_tokens`` so far in all. Charges what exceeds the estimate."""
        self._running.grew(grant_id, output_tokens)
        self._roster.refresh(self._running[grant_id].replica)
        return self._expire(now_s)

    def relayed(self, grant_id: int, now_s: float) -> list[Effect]:
        """The caller has received content: the grant is never taken back any more."""
        self._running.preemption.relayed(grant_id)
        return self._expire(now_s)

    def release(
        self,
        grant_id: int,
        usage: Usage | None,
        now_s: float,
        *,
        refund: bool = False,
        failure: Failure | None = None,
    ) -> list[Effect]:
        """The slot is free again. ``usage`` None: unknown, the charge stands. ``refund``: the
        attempt failed before its first content, or was preempted, and costs nothing. ``failure``:
        what the replica did."""
        lease = self._running.ended(grant_id, usage, now_s, refund=refund, failure=failure)
        tenant, klass = lease.ticket.tenant, lease.ticket.klass
        if refund:
            self._returning.hold((tenant, klass), now_s)
        else:
            self._waiting.queues[klass].let_go(tenant)
        self._router.ended(grant_id, lease.replica, usage)
        self._roster.refresh(lease.replica)
        return self._proceed(now_s)

    def apply(
        self, change: PoolConfig | ReplicaHealth | ReplicaTelemetry, now_s: float
    ) -> list[Effect]:
        """Takes effect with the next decision. Refuses the calls that no replica can serve any
        more."""
        if isinstance(change, ReplicaTelemetry):
            self._sample(change, now_s)
            return self._proceed(now_s)
        if isinstance(change, ReplicaHealth):
            opened = self._roster.set_health(change)
            if not change.admits:
                self._router.restarted(change.slug)
        else:
            opened = self._configure(change, now_s)
        self._running.count_slots()
        if opened:
            self._waiting.widened(opened)
        effects = self._expire(now_s)
        effects += map(self._refuse_stranded, self._waiting.stranded(self._roster.admitting))
        return effects + self._proceed(now_s)

    def wake(self, now_s: float) -> list[Effect]:
        """Time ends waiting, and what was held back for a time."""
        if self._start.released(now_s):
            self._roster.refresh_all()
        return self._proceed(now_s)

    def drain(self, now_s: float) -> list[Effect]:
        """Shutdown: every waiting call is refused; those in flight go on."""
        self._draining = True
        refused = self._waiting.all_ids()
        for call_id in refused:
            self._waiting.discard(call_id)
        return [refusals.draining(call_id) for call_id in refused]

    # Questions

    @property
    def next_wake(self) -> float | None:
        wake_s = self._returning.soonest_s
        if self._start.braked_until_s:
            wake_s = min(wake_s, *self._start.braked_until_s.values())
        if self._waiting.calls:
            times = [self._waiting.expiry.next_s]
            if self._roster.free:
                times.append(self._running.holdback.next_s(self._waiting.load, self._now_s))
            if (head := self._interactive_head) is not None:
                times.append(self._running.preemption.next_s(head, self._now_s))
            wake_s = min(wake_s, *[time_s for time_s in times if time_s is not None])
        return wake_s if wake_s < math.inf else None

    def predicted_wait_s(self, klass: PriorityClass, now_s: float) -> float | None:
        """Of a call that arrived now; None: not known yet, or nothing leaves the queue."""
        return self._shedding.wait_s(klass, now_s)

    @property
    def serves(self) -> bool:
        """A replica admits calls."""
        return bool(self._roster.admitting)

    def view(self) -> PoolView:
        view = view_of(
            self._config,
            self._waiting,
            self._running,
            self._roster,
            interactive_wait_s=self._shedding.wait_s(PriorityClass.INTERACTIVE, self._now_s),
            booked_calls=len(self._bookings),
            foreign_traffic=self._start.foreign_traffic(),
        )
        router = self._router
        return replace(view, cached_tokens=router.hits(), slow=router.slow(self._now_s))

    # Steps

    def _proceed(self, now_s: float) -> list[Effect]:
        """After every event."""
        effects = self._expire(now_s)
        calls = self._waiting.calls
        while self._open() and calls and (given := self._placement.give_out(now_s)):
            effects += given
        if calls and self._running.preemption.due(now_s):
            effects += self._preempt(now_s)
        if calls or self._rate.saturated:
            self._rate.tell(now_s, saturated=self._placement.is_saturated(now_s))
        return effects

    def _open(self) -> set[str]:
        """Open replicas, which the length of the queue opens and closes."""
        if self._start.queues(len(self._waiting.calls)):
            self._roster.refresh_all()
        return self._roster.free

    def _expire(self, now_s: float) -> list[Effect]:
        effects: list[Effect] = []
        self._now_s = now_s
        if now_s < self._waiting.expiry.soonest_s and now_s < self._returning.soonest_s:
            return effects
        while (call := self._waiting.expiry.first_due(now_s)) is not None:
            self._waiting.discard(call.ticket.call_id)
            at_rest = bool(self._roster.free)  # its caller had no time, the pool has
            after_s = SHORTEST_S if at_rest else self._shedding.booked_s(call, now_s)
            effects.append(refusals.expired(call, now_s, after_s))
        for tenant, klass in self._returning.over(now_s):
            self._waiting.queue(klass).let_go(tenant)
        return effects

    def _preempt(self, now_s: float) -> list[Effect]:
        head = self._interactive_head
        taken = None if head is None else self._running.preemption.victim(head, now_s)
        return [] if taken is None else [Preempt(taken[1].ticket.call_id, taken[0])]

    def _shed(self, call: QueuedCall, now_s: float) -> list[Effect]:
        sheds = []
        above_least = self._running.batch_above_least
        for one in self._shedding.relieve(call, now_s, batch_above_least=above_least):
            self._waiting.discard(one.call.ticket.call_id)
            sheds.append(one)
        return [  # the last to be taken out was the first to come: it books first
            refusals.shed(one, self._shedding.booked_s(one.call, now_s)) for one in reversed(sheds)
        ]

    def _refuse_stranded(self, call: QueuedCall) -> Refuse:
        self._waiting.discard(call.ticket.call_id)
        return refusals.no_replica(call, self._pool, len(self._config.replicas))

    @property
    def _interactive_head(self) -> QueuedCall | None:
        if not self._running.preemption.possible:
            return None
        queue = self._waiting.queue(PriorityClass.INTERACTIVE)
        return queue.head(self._roster.admitting) if len(queue) else None

    def _sample(self, sample: ReplicaTelemetry, now_s: float) -> None:
        replica = self._roster.get(sample.slug)
        if replica is not None:
            self._start.sampled(replica, sample, now_s)
            self._router.sampled(sample)
            self._running.limits.sampled(replica, sample)
            self._roster.refresh(replica)

    def _configure(self, config: PoolConfig, now_s: float) -> frozenset[str]:
        """Returns the replicas that admit calls and did not before."""
        self._router.configure(config)
        if config.queue != self._config.queue:
            self._waiting.change_policy(config)
            self._running.renew_holds(iter(self._returning))
        self._waiting.configure(config)
        self._start.config = self._shedding.config = self._config = config
        self._placement.configure(config)
        opened = self._roster.configure(config.replicas)
        self._running.configure(config, now_s)
        self._roster.refresh_all()
        return opened
