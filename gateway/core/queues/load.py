"""How much waits, and is a queue full?

Counted per flow (tenant and class) and per class: calls, body bytes, service cost. The bounds limit
what waits; a call that gets a slot at once is not subject to them, and neither is one that asks
again, since it was admitted already.

Invariants: every count is the sum over the calls that wait, and exactly 0 when none does; a flow
without waiting calls has no entry. A tenant's batch calls never fill its own interactive queue.
"""

from __future__ import annotations

from dataclasses import dataclass

from gateway.core.dispatch.effects import PoolConfig, Ticket
from gateway.core.priority import PriorityClass
from gateway.core.queues.call import QueuedCall

FlowKey = tuple[str, PriorityClass]


@dataclass(slots=True)
class Load:
    calls: int = 0
    body_bytes: int = 0
    cost: float = 0.0

    def add(self, call: QueuedCall) -> None:
        self.calls += 1
        self.body_bytes += call.ticket.body_bytes
        self.cost += call.cost

    def subtract(self, call: QueuedCall) -> None:
        self.calls -= 1
        self.body_bytes -= call.ticket.body_bytes
        self.cost = self.cost - call.cost if self.calls else 0.0  # no residue of rounding
        assert self.calls >= 0


@dataclass(frozen=True, slots=True)
class FullQueue:
    """The bound that a call would exceed."""

    whose: str  # "this tenant" or "this class"
    limit: int
    used: int
    unit: str


class QueueLoad:
    def __init__(self) -> None:
        self.by_class = {klass: Load() for klass in PriorityClass}
        self.by_flow: dict[FlowKey, Load] = {}

    def add(self, call: QueuedCall) -> None:
        key = (call.ticket.tenant, call.ticket.klass)
        self.by_flow.setdefault(key, Load()).add(call)
        self.by_class[call.ticket.klass].add(call)

    def subtract(self, call: QueuedCall) -> None:
        key = (call.ticket.tenant, call.ticket.klass)
        self.by_flow[key].subtract(call)
        if not self.by_flow[key].calls:
            del self.by_flow[key]
        self.by_class[call.ticket.klass].subtract(call)

    def cost_ahead(self, klass: PriorityClass) -> float:
        """Service cost that waits in this class and the classes above it."""
        return sum(load.cost for other, load in self.by_class.items() if other <= klass)

    def bound_reached(self, ticket: Ticket, config: PoolConfig) -> FullQueue | None:
        """The bound that one more call would exceed, if any."""
        flow = self.by_flow.get((ticket.tenant, ticket.klass), Load())
        klass = self.by_class[ticket.klass]
        size = ticket.body_bytes
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
