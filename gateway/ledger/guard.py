"""May a hard budget be spent while call records may be lost? No: such calls are refused.

Stands in front of a quota store. While the journal takes nothing (a full disk), a call with a
budget that fails closed gets StoreUnavailable; all others go on, their lost records counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gateway.core.limits.demands import (
    BucketKey,
    BucketState,
    Demand,
    Kind,
    QuotaStore,
    Refused,
    Reservation,
    StoreUnavailable,
)


class HardBudgetGuard:
    """A QuotaStore. ``writable``: whether call records are safe now."""

    def __init__(self, store: QuotaStore, writable: Callable[[], bool]) -> None:
        self._store = store
        self._writable = writable

    async def reserve(self, call_id: str, demands: tuple[Demand, ...]) -> Reservation | Refused:
        """Raises StoreUnavailable."""
        hard = any(demand.kind is Kind.BUDGET and demand.fails_closed for demand in demands)
        if hard and not self._writable():
            raise StoreUnavailable("call records cannot be kept")
        return await self._store.reserve(call_id, demands)

    async def settle(self, call_id: str, actual: Mapping[BucketKey, float] | None) -> None:
        await self._store.settle(call_id, actual)

    async def renew(self, call_ids: tuple[str, ...]) -> None:
        await self._store.renew(call_ids)

    async def peek(self, demands: tuple[Demand, ...]) -> tuple[BucketState, ...]:
        return await self._store.peek(demands)

    async def seed(self, key: BucketKey, used: float) -> None:
        await self._store.seed(key, used)
