"""What one process may grant while the shared store is lost: its share, from what was last seen.

Rate and level limits are divided by the number of processes; a rate level starts from the share of
what was last seen, drained since. Calls of this process that are running count. Budgets that fail
closed refuse with StoreUnavailable; the others may spend their share of what was left.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import msgspec

from gateway.core.limits.book import BucketBook
from gateway.core.limits.bucket import drained
from gateway.core.limits.demands import (
    BucketKey,
    BucketState,
    Demand,
    Kind,
    Refused,
    Reservation,
    StoreUnavailable,
)
from gateway.stores.last_known import LastKnown


class LocalShare:
    """Lives as long as the store is lost."""

    def __init__(
        self,
        known: LastKnown,
        processes: int,
        running: Mapping[str, tuple[Demand, ...]],
        now_s: float,
    ) -> None:
        self._known = known
        self._processes = processes
        self._book = BucketBook()
        self._seeded: set[BucketKey] = set()
        for call_id, demands in running.items():
            self._book.adopt(call_id, self._shares(demands, now_s), now_s)

    def reserve(
        self, call_id: str, demands: tuple[Demand, ...], now_s: float
    ) -> Reservation | Refused:
        """Raises StoreUnavailable."""
        for demand in demands:
            if demand.kind is Kind.BUDGET and demand.fails_closed:
                raise StoreUnavailable(f"{demand.key} fails closed while the shared store is lost")
        answer = self._book.reserve(call_id, self._shares(demands, now_s), now_s)
        return replace(answer, degraded=True)

    def settle(self, call_id: str, actual: Mapping[BucketKey, float] | None, now_s: float) -> None:
        self._book.settle(call_id, actual, now_s)

    def renew(self, call_ids: tuple[str, ...], now_s: float) -> None:
        self._book.renew(call_ids, now_s)

    def peek(self, demands: tuple[Demand, ...], now_s: float) -> tuple[BucketState, ...]:
        return self._book.peek(self._shares(demands, now_s), now_s)

    def _shares(self, demands: tuple[Demand, ...], now_s: float) -> tuple[Demand, ...]:
        return tuple(self._share(demand, now_s) for demand in demands)

    def _share(self, demand: Demand, now_s: float) -> Demand:
        seen = self._known.get(demand.key)
        if demand.kind is Kind.BUDGET:
            left = max(0.0, demand.capacity - seen.used)
            capacity, used = seen.used + left / self._processes, seen.used
        else:
            capacity = demand.capacity / self._processes
            rate = demand.capacity / demand.window_s
            used = drained(seen.used, now_s - seen.at_s, rate) / self._processes
        if demand.key not in self._seeded:
            self._seeded.add(demand.key)
            self._book.seed(demand.key, used, now_s)
        return msgspec.structs.replace(
            demand, capacity=capacity, amount=min(demand.amount, capacity)
        )
