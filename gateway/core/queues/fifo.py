"""Who came first? The baseline that every fairness scenario must fail: it knows no tenants.

Invariant: among the calls that a free replica may run, the least sequence leaves first.
"""

from __future__ import annotations

from collections.abc import Callable, Set

from gateway.core.queues.call import Charge, QueuedCall
from gateway.core.queues.flow import Flow
from gateway.core.queues.lane import Lane
from gateway.core.queues.line import Line
from gateway.core.queues.locality import Liberty, Locality


class FifoQueue:
    """Implements ``CallQueue``."""

    def __init__(self, weights: dict[str, float]) -> None:
        del weights  # first come, first served knows none
        self._lines: dict[Lane, Line] = {}
        self._waiting = 0

    def __len__(self) -> int:
        return self._waiting

    def push(self, call: QueuedCall) -> None:
        self._lines.setdefault(call.lane, Line(Flow(""), divided=False)).append(call)
        self._waiting += 1

    def discard(self, call: QueuedCall) -> None:
        line = self._lines[call.lane]
        self._waiting -= 1
        if not line.remove(call, served=False):
            del self._lines[call.lane]

    def head(
        self, free: Set[str], passes_over: Callable[[QueuedCall], bool] | None = None
    ) -> QueuedCall | None:
        heads = [line.head for lane, line in self._lines.items() if lane.meets(free)]
        return min(heads, key=lambda call: call.sequence, default=None)

    def nearer(self, head: QueuedCall, locality: Locality) -> tuple[QueuedCall, Liberty]:
        return head, Liberty.NONE

    def dispatch(self, call: QueuedCall, before: QueuedCall | None = None) -> Charge:
        self.discard(call)
        return Charge(call.ticket.tenant, 1.0, call.cost)

    def let_through(self, call: QueuedCall) -> Charge:
        return Charge(call.ticket.tenant, 1.0, call.cost)

    def charge_from_above(self, tenant: str, cost: float) -> Charge | None:
        return None

    def correct(self, charge: Charge, cost: float) -> None:
        charge.cost = cost

    def hold(self, tenant: str) -> None:
        """Nothing is remembered of a tenant."""

    def let_go(self, tenant: str) -> None:
        """Nothing is remembered of a tenant."""

    def set_weights(self, weights: dict[str, float]) -> None:
        """First come, first served knows no weights."""

    def widened(self, slugs: frozenset[str]) -> None:
        """Nothing is owed to anybody."""

    def lanes(self) -> dict[Lane, int]:
        return {lane: len(line) for lane, line in self._lines.items()}
