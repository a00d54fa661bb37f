"""What runs: every grant that has not been released, and all that counts it.

One face for the parts that must hear of the same moments in the life of a lease (its slot, its
charge, the counts of its class, its part of the batch, its right to be left alone, the evidence for
the slot limit), so that a lease enters and leaves all of them together.

Invariant: a lease is in all parts or in none; with nothing in flight every count is exactly 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gateway.core.dispatch.batch_share import BatchShare
from gateway.core.dispatch.effects import Failure, PoolConfig, Usage
from gateway.core.dispatch.holdback import Holdback
from gateway.core.dispatch.lease import Lease
from gateway.core.dispatch.preemption import Preemption
from gateway.core.dispatch.slot_limits import SlotLimits
from gateway.core.priority import PriorityClass
from gateway.core.queues.load import FlowKey
from gateway.core.queues.waiting import WaitingCalls
from gateway.core.routing.replica import Replica
from gateway.core.routing.roster import Roster


class RunningCalls:
    def __init__(
        self, config: PoolConfig, waiting: WaitingCalls, roster: Roster, now_s: float
    ) -> None:
        self.holdback = Holdback(config)
        self.share = BatchShare(config, waiting.load)
        self.preemption = Preemption(config, roster)
        self.limits = SlotLimits(config, roster, now_s)
        self._waiting = waiting
        self._roster = roster
        self._leases: dict[int, Lease] = {}
        self._strict_batch = 0  # batch calls in flight beyond what batch is owed
        self._service: dict[str, float] = {}  # by tenant, as charged now
        self._in_flight: Counter[FlowKey] = Counter()  # none of zero
        self.count_slots()

    def __getitem__(self, grant_id: int) -> Lease:
        return self._leases[grant_id]

    def __iter__(self) -> Iterator[Lease]:
        return iter(self._leases.values())

    @property
    def batch_above_least(self) -> bool:
        """Batch runs on more than the twentieth that it is owed."""
        return self._strict_batch > 0

    def service(self) -> dict[str, float]:
        """Service tokens of each tenant seen: what its dispatched calls are charged now."""
        return dict(self._service)

    def in_flight(self) -> Counter[FlowKey]:
        """Calls of each flow that has any."""
        return self._in_flight.copy()

    def configure(self, config: PoolConfig, now_s: float) -> None:
        self.holdback.configure(config)
        self.share.config = config
        self.preemption.config = config
        self.limits.configure(config, now_s)
        for grant_id, lease in self._leases.items():
            if self._roster.get(lease.replica.slug) is not lease.replica:
                self.holdback.ended(lease.ticket.klass, grant_id)

    def count_slots(self) -> None:
        """After the slots of a replica changed."""
        self.holdback.count_slots(sum(replica.slots for replica in self._roster))

    def granted(self, grant_id: int, lease: Lease) -> None:
        """After its replica took it."""
        ticket = lease.ticket
        self._leases[grant_id] = lease
        self._in_flight[ticket.tenant, ticket.klass] += 1
        service = self._service
        service[ticket.tenant] = service.get(ticket.tenant, 0.0) + lease.charge.cost
        waited_s = lease.dispatched_s - lease.call.queued_s
        self.holdback.dispatched(ticket.klass, grant_id, lease.dispatched_s, waited_s)
        self.share.granted(lease.replica, lease.call)
        if ticket.klass is PriorityClass.BATCH:
            self.preemption.granted(grant_id, lease)
        self.limits.granted(lease.replica)
        self._strict_batch += lease.is_above_least

    def began(self, grant_id: int, now_s: float) -> Replica:
        """First event. Returns where."""
        lease = self._leases[grant_id]
        lease.replica.started(grant_id)
        if self.limits.began(lease, now_s):
            self.count_slots()
        if lease.first_event_s is None:
            lease.first_event_s = now_s
        return lease.replica

    def grew(self, grant_id: int, output_tokens: int) -> None:
        lease = self._leases[grant_id]
        lease.output_tokens = output_tokens
        lease.replica.grew(grant_id, lease.uncached_tokens + output_tokens)
        self._correct(lease, lease.cost_so_far(output_tokens))

    def ended(
        self,
        grant_id: int,
        usage: Usage | None,
        now_s: float,
        *,
        refund: bool,
        failure: Failure | None,
    ) -> Lease:
        lease = self._leases.pop(grant_id)
        self._correct(lease, lease.final_cost(usage, refund=refund))
        ticket = lease.ticket
        self._left((ticket.tenant, ticket.klass))
        self.holdback.ended(ticket.klass, grant_id)
        self.share.ended(lease.replica, lease.call)
        self.preemption.ended(grant_id, lease, refund=refund)
        lease.replica.free(grant_id)
        if self.limits.ended(lease, usage, now_s, failure):
            self.count_slots()
        self._strict_batch -= lease.is_above_least
        return lease

    def renew_holds(self, returning: Iterator[FlowKey]) -> None:
        """New queues know nothing of the calls in flight."""
        for lease in self:
            self._waiting.queue(lease.ticket.klass).hold(lease.ticket.tenant)
        for tenant, klass in returning:
            self._waiting.queue(klass).hold(tenant)

    def _left(self, flow: FlowKey) -> None:
        if self._in_flight[flow] > 1:
            self._in_flight[flow] -= 1
        else:
            del self._in_flight[flow]

    def _correct(self, lease: Lease, cost: float) -> None:
        more = cost - lease.charge.cost
        if not more:
            return
        self._service[lease.ticket.tenant] += more
        if lease.spared:
            self._waiting.correct_batch_share(more)
        self._waiting.queues[lease.ticket.klass].correct(lease.charge, cost)
        for klass, charge in lease.below:
            self._waiting.queues[klass].correct(charge, cost)
