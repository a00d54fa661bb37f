"""Who is refused when more work comes than can be done in time?

A call that waits longer than its caller cares for is work for nobody. So the decision is made when
a call arrives, by the wait that is to be expected, and not by how long the queue is:

  predicted wait  cost that waits in its class and above, and what is booked to come meanwhile,
                  / the drain rate left for the class
  budget          min(wait limit, time to the deadline, 4 * TTFT objective); of a queue that stands
                  (``standing_queue``) half the objective

Above the budget something must go, in this order:

  1. queued calls of lower classes, batch first, as much cost as the class is over its budget. They
     would not be served in time anyway, and what is left of them (its twentieth, aged heads)
     would take slots. One batch call stays, so that batch has its minimum
  2. in the class itself, of the tenant furthest above its fair share the newest call, conversations
     that begin before those that go on; until the class is within its budget. While batch runs
     above its minimum the class is given its whole budget before that. A tenant whose own calls,
     those that wait and those that are booked, take no more than its share of the budget loses
     none: the fair queue serves it in time, whatever is booked for others

While a class is over its budget, newcomers of lower classes are refused at once, but for the one
batch call. A call
whose own deadline, or own objective, cannot be met is refused itself.

Every refusal is told when to come back (``bookings``). Calls that ask again or return to a booking
are never refused here: they wait, bounded by wait limit and deadline.

Invariants: nothing is shed while the wait is unknown, or while a free slot could take the call;
nobody is shed for a higher class that is within its budget. Units: monotonic seconds, service
tokens. It decides; the caller removes and tells.
Source: CoDel (see ``standing_queue``); Google SRE, "Handling Overload"; FairServe for
conversations.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gateway.core.dispatch.bookings import Bookings
from gateway.core.dispatch.drain_rate import DrainRate
from gateway.core.dispatch.effects import PoolConfig, Ticket
from gateway.core.dispatch.standing_queue import StandingQueue
from gateway.core.priority import CLASSES, PriorityClass
from gateway.core.queues.call import QueuedCall
from gateway.core.queues.load import QueueLoad

CROWDED_S = 1.0
KEPT_CALLS = {PriorityClass.STANDARD: 0, PriorityClass.BATCH: 1}
LOWEST_FIRST = (PriorityClass.BATCH, PriorityClass.STANDARD)
STANDING_TARGETS = 2.0


@dataclass(frozen=True, slots=True)
class Shed:
    """``wait_s`` was predicted, ``budget_s`` allowed. ``for_class``: whose budget was exceeded."""

    call: QueuedCall
    wait_s: float
    budget_s: float
    for_class: PriorityClass


class Shedding:
    def __init__(
        self, config: PoolConfig, load: QueueLoad, rate: DrainRate, bookings: Bookings
    ) -> None:
        self.config = config
        self._load = load
        self._rate = rate
        self._bookings = bookings
        self._standing = {klass: StandingQueue() for klass in PriorityClass}
        self._crowded_s = dict.fromkeys(PriorityClass, -CROWDED_S)

    def relieve(self, call: QueuedCall, now_s: float, *, batch_above_least: bool) -> Iterator[Shed]:
        """``call`` has just arrived and waits. Yields who is refused; the caller removes each
        before it asks for the next."""
        klass = call.ticket.klass
        wait_s = self.wait_s(klass, now_s, newcomer_cost=call.cost)
        if wait_s is None or self.config.shed_wait_ratio <= 0:
            return
        higher = self._crowded_by(klass, now_s)
        if higher is not None and self._load.by_class[klass].calls > KEPT_CALLS[klass]:
            yield Shed(call, wait_s, self._budget_s(higher), higher)
            return
        self._observe(klass, wait_s, now_s)
        budget_s = self._budget_s(klass)
        if wait_s > budget_s:
            yield from self._make_room(klass, wait_s, now_s, batch_above_least=batch_above_least)
        if wait_s > self._patience_s(call.ticket, now_s):
            yield from self._beyond_patience(call, now_s)

    def dispatched(self, klass: PriorityClass, now_s: float) -> None:
        """The delay of the class has fallen."""
        if not self._load.by_class[klass].calls:
            self._standing[klass].empty(now_s)

    def wait_s(
        self, klass: PriorityClass, now_s: float, *, newcomer_cost: float = 0.0
    ) -> float | None:
        """Of a call that has just been queued with ``newcomer_cost``, or would be. None: not
        known."""
        ahead = self._load.cost_ahead(klass) - newcomer_cost
        if len(self._bookings):
            until_s = now_s + min(self._budget_s(klass), self.config.wait_limit_s[klass])
            ahead += self._bookings.cost_ahead(klass, until_s, now_s)
        return self._rate.predicted_wait_s(klass, ahead, now_s)

    def booked_s(self, call: QueuedCall, now_s: float) -> float:
        """Books a place for a call that left the queue for load; Retry-After in seconds."""
        longest_s = self.config.longest_retry_s
        klass = call.ticket.klass
        rate_tps = self._rate.left_tps(klass, now_s)
        if not rate_tps:
            return longest_s
        free_s = now_s + self._load.cost_ahead(klass) / rate_tps
        return self._bookings.book(
            call, now_s, free_s=free_s, rate_tps=rate_tps, longest_s=longest_s
        )

    # Steps

    def _make_room(
        self, klass: PriorityClass, wait_s: float, now_s: float, *, batch_above_least: bool
    ) -> Iterator[Shed]:
        budget_s = self._budget_s(klass)
        rate_tps = self._rate.left_tps(klass, now_s)
        assert rate_tps is not None
        over = (wait_s - budget_s) * rate_tps
        self._crowded_s[klass] = now_s
        lower = False
        for shed in self._lower(klass, wait_s, budget_s):
            lower = True
            over -= shed.call.cost
            yield shed
            if over <= 0:
                return
        if lower or (batch_above_least and self._fits_whole_budget(klass, now_s)):
            return
        while over > 0 and (victim := self._load.next_to_shed(klass)) is not None:
            if self._is_within_share(victim.ticket, budget_s * rate_tps):
                return
            over -= victim.cost
            yield Shed(victim, wait_s, budget_s, klass)

    def _is_within_share(self, ticket: Ticket, budget_cost: float) -> bool:
        """What its tenant has waiting and booked is no more than its part of what may wait."""
        load, tenant, klass = self._load, ticket.tenant, ticket.klass
        flow = load.flow(tenant, klass)
        own = self._bookings.flow_cost(tenant, klass) + (flow.cost if flow is not None else 0.0)
        return own * load.weight_of_class[klass] <= budget_cost * load.weight(tenant)

    def _fits_whole_budget(self, klass: PriorityClass, now_s: float) -> bool:
        """By what waits, without what is booked."""
        ahead = self._load.cost_ahead(klass)
        wait_s = self._rate.predicted_wait_s(klass, ahead, now_s) or 0.0
        return klass < PriorityClass.BATCH and wait_s <= self._whole_budget_s(klass)

    def _lower(self, klass: PriorityClass, wait_s: float, budget_s: float) -> Iterator[Shed]:
        for lower in LOWEST_FIRST:
            while lower > klass and self._load.by_class[lower].calls > KEPT_CALLS[lower]:
                victim = self._load.next_to_shed(lower)
                if victim is None:
                    break
                yield Shed(victim, wait_s, budget_s, klass)

    def _beyond_patience(self, call: QueuedCall, now_s: float) -> Iterator[Shed]:
        """Its own tenant's calls decide when it goes, if that is sooner than all calls of the
        class."""
        load, ticket = self._load, call.ticket
        flow = load.flow(ticket.tenant, ticket.klass)
        if flow is None or not flow.may_shed(ticket.call_id):
            return  # refused already
        of_class_s = self.wait_s(ticket.klass, now_s, newcomer_cost=call.cost)
        rate_tps = self._rate.left_tps(ticket.klass, now_s)
        if of_class_s is None or not rate_tps:
            return
        share = load.weight(ticket.tenant) / load.weight_of_class[ticket.klass]
        wait_s = min(of_class_s, (flow.cost - call.cost) / (share * rate_tps))
        patience_s = self._patience_s(ticket, now_s)
        if wait_s > patience_s:
            yield Shed(call, wait_s, patience_s, ticket.klass)

    def _patience_s(self, ticket: Ticket, now_s: float) -> float:
        """What the caller itself says: its deadline, and its own objective."""
        left_s = ticket.deadline_s - now_s
        if ticket.ttft_objective_s is None:
            return left_s
        return min(left_s, self.config.shed_wait_ratio * ticket.ttft_objective_s)

    def _crowded_by(self, klass: PriorityClass, now_s: float) -> PriorityClass | None:
        for higher in CLASSES:
            if higher < klass and now_s - self._crowded_s[higher] < CROWDED_S:
                return higher
        return None

    def _observe(self, klass: PriorityClass, wait_s: float, now_s: float) -> None:
        objective_s = self.config.ttft_objective_s[klass]
        target_s = self.config.standing_queue_ratio * objective_s
        if 0 < target_s < self.config.wait_limit_s[klass]:
            self._standing[klass].observe(wait_s, now_s, target_s=target_s, interval_s=objective_s)

    def _budget_s(self, klass: PriorityClass) -> float:
        whole_s = self._whole_budget_s(klass)
        if not self._standing[klass].stands:
            return whole_s
        target_s = self.config.standing_queue_ratio * self.config.ttft_objective_s[klass]
        return min(whole_s, STANDING_TARGETS * target_s)

    def _whole_budget_s(self, klass: PriorityClass) -> float:
        objective_s = self.config.ttft_objective_s[klass]
        return min(self.config.wait_limit_s[klass], self.config.shed_wait_ratio * objective_s)
