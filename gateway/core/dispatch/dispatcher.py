"""When does a call get a slot, and on which replica?

One dispatcher per pool, for reality and simulation: pure and synchronous. Every method takes the
time and returns effects that the caller carries out: ``Grant`` (one lease on one slot of one
replica), ``Refuse`` (the call left the queue without one). ``next_wake`` is the time at which
something happens by itself; call ``wake`` then.

Whatever happens is handled in one order: the event is applied, what is over expires, then slots are
given out for as long as a replica has a free one and a call waits that may run there:

  class order (strict, with the two exceptions of ``class_order``)
    -> fair queue of the class (least start tag)
      -> routing policy among the replicas with a free slot (late binding)

The replica is chosen at dispatch, never before, so a waiting call is lost by no change of the pool;
it is refused only when no replica can serve it. Local counts decide: a grant is counted when it is
given, and telemetry, which is late, changes nothing here.

Invariants
  * Work-conserving: after every method, no replica has a free slot that a waiting call may use.
  * A replica never holds more leases than its slots at the moment of the grant.
  * Per call: submit, then exactly one of grant, refusal, withdrawal; per grant: one release.
  * With nothing waiting and nothing in flight, every count is exactly 0.
  * A decision costs O(log flows + replicas), whatever the number of waiting calls.

Raises only for programming errors (an unknown grant, a call submitted twice, an unknown policy).
Units: monotonic seconds, service tokens. Source: algorithms of the modules that it puts together.
"""

from __future__ import annotations

import random
from itertools import count

from gateway.core.dispatch import refusals
from gateway.core.dispatch.drain_rate import DrainRate
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
from gateway.core.dispatch.lease import Lease, estimated_cost
from gateway.core.dispatch.returning import ReturningFlows
from gateway.core.dispatch.service_account import ServiceAccount
from gateway.core.dispatch.start_rule import StartRule
from gateway.core.priority import PriorityClass
from gateway.core.queues.call import QueuedCall
from gateway.core.queues.class_order import Choice
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
        self._leases: dict[int, Lease] = {}
        self._returning = ReturningFlows()
        self._account = ServiceAccount()
        self._drain_rate = DrainRate(now_s)
        self._draining = False
        self._grant_ids = count(1)

    # Events

    def submit(self, ticket: Ticket, now_s: float) -> list[Effect]:
        """A call asks for a slot. While draining only calls that ask again are taken."""
        effects = self._expire(now_s)
        if self._draining and not ticket.again:
            return [*effects, refusals.draining(ticket.call_id)]
        bound = None if ticket.again else self._waiting.load.bound_reached(ticket, self._config)
        call = self._waiting.add(
            ticket,
            cost=estimated_cost(ticket),
            now_s=now_s,
            wait_limit_s=self._config.wait_limit_s[ticket.klass],
        )
        if not call.lane.meets(self._roster.admitting):
            return [*effects, self._refuse_stranded(call)]
        effects += self._expire(now_s)  # its own deadline may be over
        effects += self._give_out(now_s)
        if bound is not None and ticket.call_id in self._waiting:
            self._waiting.discard(ticket.call_id)
            effects.append(refusals.queue_full(call, bound, self._wait_s(ticket.klass, now_s)))
        return effects

    def withdraw(self, call_id: str, now_s: float) -> list[Effect]:
        """A call that waits is gone. No effect for one that does not wait."""
        self._waiting.discard(call_id)
        return self._expire(now_s)

    def first_event(self, grant_id: int, now_s: float) -> list[Effect]:
        """The replica answered with any event: the call is in its batch."""
        lease = self._leases[grant_id]
        lease.replica.started(grant_id)
        self._router.first_event(grant_id, lease.replica, now_s)
        self._start.started(lease.replica.slug)
        self._roster.refresh(lease.replica)
        return self._expire(now_s) + self._give_out(now_s)

    def progress(self, grant_id: int, output_tokens: int, now_s: float) -> list[Effect]:
        """``output_tokens`` so far in all. Charges what exceeds the estimate."""
        lease = self._leases[grant_id]
        lease.replica.grew(grant_id, lease.uncached_tokens + output_tokens)
        self._roster.refresh(lease.replica)
        self._correct(lease, lease.cost_so_far(output_tokens))
        return self._expire(now_s)

    def release(
        self, grant_id: int, usage: Usage | None, now_s: float, *, refund: bool = False
    ) -> list[Effect]:
        """The slot is free again. ``usage`` None: unknown, the charge stands. ``refund``: the
        attempt failed before its first content and costs nothing."""
        lease = self._leases.pop(grant_id)
        flow = (lease.ticket.tenant, lease.ticket.klass)
        self._correct(lease, lease.final_cost(usage, refund=refund))
        if refund:
            self._returning.hold(flow, now_s)
        else:
            self._waiting.queue(lease.ticket.klass).let_go(lease.ticket.tenant)
        self._account.ended(flow)
        lease.replica.free(grant_id)
        self._router.ended(grant_id, lease.replica, usage)
        self._roster.refresh(lease.replica)
        return self._expire(now_s) + self._give_out(now_s)

    def apply(
        self, change: PoolConfig | ReplicaHealth | ReplicaTelemetry, now_s: float
    ) -> list[Effect]:
        """Takes effect with the next decision. Refuses the calls that no replica can serve any
        more."""
        if isinstance(change, ReplicaTelemetry):
            return self._sample(change, now_s)
        if isinstance(change, ReplicaHealth):
            opened = self._roster.set_health(change)
            if not change.admits:
                self._router.restarted(change.slug)
        else:
            self._configure(change)
            opened = self._roster.configure(change.replicas)
        if opened:
            self._waiting.widened(opened)
        effects = self._expire(now_s)
        for call in self._waiting.stranded(self._roster.admitting):
            effects.append(self._refuse_stranded(call))
        return effects + self._give_out(now_s)

    def wake(self, now_s: float) -> list[Effect]:
        """Time ends waiting, and what was held back for a time."""
        for slug in self._start.released(now_s):
            if (replica := self._roster.get(slug)) is not None:
                self._roster.refresh(replica)
        return self._expire(now_s) + self._give_out(now_s)

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
        times = (self._waiting.next_expiry_s, self._returning.next_s, self._start.next_s)
        return min((time_s for time_s in times if time_s is not None), default=None)

    def predicted_wait_s(self, klass: PriorityClass, now_s: float) -> float | None:
        """Of a call that arrived now; None: nothing was dispatched in the last 10 s."""
        return self._wait_s(klass, now_s)

    def view(self) -> PoolView:
        return PoolView(
            queued={flow: load.calls for flow, load in self._waiting.load.by_flow.items()},
            in_flight=self._account.in_flight(),
            replica_in_flight={replica.slug: replica.in_flight for replica in self._roster},
            replica_slots={replica.slug: replica.slots for replica in self._roster},
            replica_unstarted={replica.slug: replica.unstarted for replica in self._roster},
            oldest_arrival_s=self._waiting.oldest_arrival_s(),
            service=self._account.service(),
            foreign_traffic=self._start.foreign_traffic(),
        )

    # Steps

    def _expire(self, now_s: float) -> list[Effect]:
        effects: list[Effect] = []
        while (call := self._waiting.first_due(now_s)) is not None:
            self._waiting.discard(call.ticket.call_id)
            wait_s = self._wait_s(call.ticket.klass, now_s)
            effects.append(refusals.expired(call, now_s, wait_s))
        for tenant, klass in self._returning.over(now_s):
            self._waiting.queue(klass).let_go(tenant)
        return effects

    def _give_out(self, now_s: float) -> list[Effect]:
        effects: list[Effect] = []
        while self._roster.free and len(self._waiting):
            choice = self._waiting.choose(self._roster.free, now_s)
            if choice is None:
                break
            effects.append(self._grant(choice, now_s))
        return effects

    def _grant(self, choice: Choice, now_s: float) -> Grant:
        call, ticket = choice.call, choice.call.ticket
        placing = self._router.choose(
            ticket,
            self._roster.candidates(call.lane),
            lambda: self._roster.admitted(call.lane),
            now_s,
        )
        replica, uncached = placing.replica, placing.uncached_tokens
        lease = Lease(ticket, replica, self._waiting.dispatch(choice), uncached)
        grant_id = next(self._grant_ids)
        self._leases[grant_id] = lease
        self._router.dispatched(grant_id, placing, ticket, now_s)
        opened_by = self._start.opened_by(replica)
        replica.take(grant_id, uncached + ticket.output_tokens, uncached)
        self._roster.refresh(replica)
        self._account.dispatched((ticket.tenant, ticket.klass), call.cost)
        self._drain_rate.dispatched(call.cost, now_s)
        rule = f"{choice.rule}/{self._config.queue}/{self._config.routing}/{opened_by}"
        waited_s = now_s - call.queued_s
        return Grant(ticket.call_id, grant_id, replica.slug, waited_s, rule, placing.decision)

    def _correct(self, lease: Lease, cost: float) -> None:
        if cost == lease.charge.cost:
            return
        self._account.corrected(lease.ticket.tenant, cost - lease.charge.cost)
        self._waiting.queue(lease.ticket.klass).correct(lease.charge, cost)

    def _refuse_stranded(self, call: QueuedCall) -> Refuse:
        self._waiting.discard(call.ticket.call_id)
        return refusals.no_replica(call, self._pool, len(self._config.replicas))

    def _wait_s(self, klass: PriorityClass, now_s: float) -> float | None:
        ahead = self._waiting.load.cost_ahead(klass)
        return self._drain_rate.predicted_wait_s(ahead, now_s)

    def _sample(self, sample: ReplicaTelemetry, now_s: float) -> list[Effect]:
        replica = self._roster.get(sample.slug)
        if replica is not None:
            self._start.sampled(replica, sample, now_s)
            self._router.sampled(sample)
            self._roster.refresh(replica)
        return self._expire(now_s) + self._give_out(now_s)

    def _configure(self, config: PoolConfig) -> None:
        self._start.config = config
        self._router.configure(config)
        if config.queue != self._config.queue:
            self._waiting.change_policy(config)
            self._renew_holds()
        self._waiting.set_weights(config.weights)
        self._config = config

    def _renew_holds(self) -> None:
        """New queues know nothing of the calls in flight."""
        for lease in self._leases.values():
            self._waiting.queue(lease.ticket.klass).hold(lease.ticket.tenant)
        for tenant, klass in self._returning:
            self._waiting.queue(klass).hold(tenant)
