"""May a hard budget be spent while call records may be lost? No: such calls are refused.

Stands in front of a quota store. While the journal takes nothing (a full disk), a call with a
budget that fails closed gets StoreUnavailable; all others go on, their lost records counted.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

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

    def reserve(
        self, call_id: str, demands: tuple[Demand, ...]
    ) -> Coroutine[Any, Any, Reservation | Refused]:
        """Raises StoreUnavailable."""
        if not self._writable() and any(map(_is_hard, demands)):
            raise StoreUnavailable("call records cannot be kept")
        return self._store.reserve(call_id, demands)

    def settle(self, call_id: str, actual: Mapping[BucketKey, float] | None) -> Awaitable[None]:
        return self._store.settle(call_id, actual)

    def renew(self, call_ids: tuple[str, ...]) -> Coroutine[Any, Any, None]:
        return self._store.renew(call_ids)

    def peek(self, demands: tuple[Demand, ...]) -> Coroutine[Any, Any, tuple[BucketState, ...]]:
        return self._store.peek(demands)

    def seed(self, key: BucketKey, used: float) -> Coroutine[Any, Any, None]:
        return self._store.seed(key, used)


def _is_hard(demand: Demand) -> bool:
    return demand.kind is Kind.BUDGET and demand.fails_closed
