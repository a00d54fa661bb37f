"""How much service has each tenant received, and how many of its calls run? For pages and metrics.

Invariants: a flow without calls in flight has no entry; service is the sum over dispatched calls of
what each is charged now. Service tokens since the start of the process, one number per tenant seen.
"""

from __future__ import annotations

from gateway.core.priority import PriorityClass
from gateway.core.queues.load import FlowKey


class ServiceAccount:
    def __init__(self) -> None:
        self._service: dict[str, float] = {}
        self._in_flight: dict[FlowKey, int] = {}

    def dispatched(self, flow: FlowKey, cost: float) -> None:
        self._in_flight[flow] = self._in_flight.get(flow, 0) + 1
        self.corrected(flow[0], cost)

    def corrected(self, tenant: str, difference: float) -> None:
        self._service[tenant] = self._service.get(tenant, 0.0) + difference

    def ended(self, flow: FlowKey) -> None:
        self._in_flight[flow] -= 1
        if not self._in_flight[flow]:
            del self._in_flight[flow]

    def in_flight(self) -> dict[tuple[str, PriorityClass], int]:
        return dict(self._in_flight)

    def service(self) -> dict[str, float]:
        return dict(self._service)
