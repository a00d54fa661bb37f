"""How much waits, and is a queue full?

Counted per flow (tenant and class) and per class: calls, body bytes, service cost. The bounds limit
what waits; a call that gets a slot at once is not subject to them, and neither is one that asks
again, since it was admitted already.

It also knows who may be shed, should something have to be: of the tenant whose waiting cost is
largest for its weight (furthest above its fair share), the newest call; a follow-up of a
conversation that is going on only after the calls that begin one. Calls that ask again or hold a
booking are never shed. Finding it costs O(log flows) amortised.

Invariants: every count is the sum over the calls that wait, and exactly 0 when none does; a flow
without waiting calls has no entry. A tenant's batch calls never fill its own interactive queue.
"""

from __future__ import annotations

import heapq
from collections.abc import ItemsView
from dataclasses import dataclass, field

from gateway.core.dispatch.effects import PoolConfig, Ticket
from gateway.core.priority import PriorityClass
from gateway.core.queues.call import QueuedCall

FlowKey = tuple[str, PriorityClass]


_SLACK = 64


@dataclass(slots=True)
class Load:
    calls: int = 0
    body_bytes: int = 0
    cost: float = 0.0
    noted_cost: float = 0.0  # at least ``cost``: as its entry in the heap of its class has it
    beginnings: dict[str, QueuedCall] = field(default_factory=dict)  # by call id, oldest first
    follow_ups: dict[str, QueuedCall] = field(default_factory=dict)

    def may_shed(self, call_id: str) -> bool:
        """It waits here, and was never admitted or promised a place before."""
        return call_id in self.beginnings or call_id in self.follow_ups


NO_LOAD = Load()  # read only


@dataclass(frozen=True, slots=True)
class FullQueue:
    """The bound that a call would exceed."""

    whose: str  # "this tenant" or "this class"
    limit: int
    used: int
    unit: str


class QueueLoad:
    def __init__(self, weights: dict[str, float] | None = None) -> None:
        self.by_class = {klass: Load() for klass in PriorityClass}
        self._flows: dict[PriorityClass, dict[str, Load]] = {klass: {} for klass in PriorityClass}
        self.weight_of_class = dict.fromkeys(PriorityClass, 0.0)  # of the flows that wait
        self._weights = weights or {}
        self._largest: dict[PriorityClass, list[tuple[float, str]]] = {
            klass: [] for klass in PriorityClass
        }

    @property
    def by_flow(self) -> dict[FlowKey, Load]:
        """A copy, for pages."""
        return {
            (tenant, klass): load for klass in PriorityClass for tenant, load in self.flows(klass)
        }

    def weight(self, tenant: str) -> float:
        return self._weights.get(tenant, 1.0)

    def set_weights(self, weights: dict[str, float]) -> None:
        self._weights = weights
        self.weight_of_class = dict.fromkeys(PriorityClass, 0.0)
        for klass, heap in self._largest.items():
            heap[:] = [self._entry(tenant, load) for tenant, load in self.flows(klass)]
            heapq.heapify(heap)
            self.weight_of_class[klass] += sum(self.weight(tenant) for tenant in self._flows[klass])

    def add(self, call: QueuedCall, *, follow_up: bool = False) -> None:
        ticket = call.ticket
        tenant, klass = ticket.tenant, ticket.klass
        flow = self._flows[klass].get(tenant)
        if flow is None:
            flow = self._flows[klass][tenant] = Load()
            self.weight_of_class[klass] += self.weight(tenant)
        for load in (flow, self.by_class[klass]):
            load.calls += 1
            load.body_bytes += ticket.body_bytes
            load.cost += call.cost
        if not call.goes_first:
            (flow.follow_ups if follow_up else flow.beginnings)[ticket.call_id] = call
        if flow.cost > flow.noted_cost:
            self._note(klass, tenant, flow)

    def subtract(self, call: QueuedCall) -> None:
        ticket = call.ticket
        tenant, klass = ticket.tenant, ticket.klass
        flow, of_class = self._flows[klass][tenant], self.by_class[klass]
        for load in (flow, of_class):
            load.calls -= 1
            load.body_bytes -= ticket.body_bytes
            load.cost = load.cost - call.cost if load.calls else 0.0  # no residue of rounding
        assert flow.calls >= 0
        if flow.beginnings.pop(ticket.call_id, None) is None:
            flow.follow_ups.pop(ticket.call_id, None)
        if not flow.calls:
            del self._flows[klass][tenant]
            self.weight_of_class[klass] -= self.weight(tenant)
        if not of_class.calls:
            self.weight_of_class[klass] = 0.0
            self._largest[klass].clear()

    def next_to_shed(self, klass: PriorityClass) -> QueuedCall | None:
        """None: nothing that waits in the class may be shed."""
        heap, spared = self._largest[klass], []
        victim = None
        while heap and victim is None:
            tenant = heap[0][1]
            flow = self._flows[klass].get(tenant)
            if flow is None:
                heapq.heappop(heap)
            elif heap[0] != self._entry(tenant, flow):
                heapq.heapreplace(heap, self._entry(tenant, flow))
            elif (victim := _newest(flow)) is None:
                spared.append(heapq.heappop(heap))
        for entry in spared:
            heapq.heappush(heap, entry)
        return victim

    def _note(self, klass: PriorityClass, tenant: str, flow: Load) -> None:
        heap = self._largest[klass]
        heapq.heappush(heap, self._entry(tenant, flow))
        if len(heap) > 2 * len(self._flows[klass]) + _SLACK:
            heap[:] = [self._entry(name, load) for name, load in self.flows(klass)]
            heapq.heapify(heap)

    def _entry(self, tenant: str, flow: Load) -> tuple[float, str]:
        flow.noted_cost = flow.cost
        return (-flow.cost / self.weight(tenant), tenant)

    def cost_ahead(self, klass: PriorityClass) -> float:
        """Service cost that waits in this class and the classes above it."""
        cost = 0.0
        for other, load in self.by_class.items():
            if other <= klass:
                cost += load.cost
        return cost

    def flow(self, tenant: str, klass: PriorityClass) -> Load | None:
        return self._flows[klass].get(tenant)

    def flows(self, klass: PriorityClass) -> ItemsView[str, Load]:
        return self._flows[klass].items()

    def bound_reached(self, ticket: Ticket, config: PoolConfig) -> FullQueue | None:
        """The bound that one more call would exceed, if any."""
        flow = self._flows[ticket.klass].get(ticket.tenant, NO_LOAD)
        klass = self.by_class[ticket.klass]
        size = ticket.body_bytes
        if (
            flow.calls < config.queue_calls_per_tenant
            and flow.body_bytes + size <= config.queue_bytes_per_tenant
            and klass.calls < config.queue_calls_per_class
            and klass.body_bytes + size <= config.queue_bytes_per_class
        ):
            return None
        bounds = (
            ("this tenant", config.queue_calls_per_tenant, flow.calls, 1, "calls"),
            ("this tenant", config.queue_bytes_per_tenant, flow.body_bytes, size, "bytes"),
            ("this class", config.queue_calls_per_class, klass.calls, 1, "calls"),
            ("this class", config.queue_bytes_per_class, klass.body_bytes, size, "bytes"),
        )
        for whose, limit, used, more, unit in bounds:
            if used + more > limit:
                return FullQueue(whose, limit, used, unit)
        return None


def _newest(flow: Load) -> QueuedCall | None:
    for calls in (flow.beginnings, flow.follow_ups):
        if calls:
            return calls[next(reversed(calls))]
    return None
