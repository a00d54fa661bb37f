"""How much of each limit is used, held by calls in flight, and left, now?

Read from the running gateway's quota store, where this process has one; without it the limits are
shown without use. Bounded: a store that does not answer in time leaves the bars away.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any

from asgiref.sync import async_to_sync
from django.http import HttpRequest

from dashboard.numbers import count
from gateway.core.errors import LimitExceeded
from gateway.core.limits.demands import BucketState, Demand, Kind, QuotaStore, StoreUnavailable
from gateway.core.limits.limit import METER_NAMED, Limit
from gateway.core.limits.plan import CallSize, Payer, Place, demands_for
from gateway.core.priority import PriorityClass
from tenants.selectors.limits import EffectiveLimit, effective_limits

PEEK_S = 0.5
NOTHING = CallSize(input_tokens=0, output_tokens=0, prompt_bytes=0)
NAMES = {
    "tpm": "Tokens per minute",
    "itpm": "Input tokens per minute",
    "otpm": "Output tokens per minute",
    "rpm": "Calls per minute",
    "concurrent": "Concurrent calls",
    "day": "Tokens today, UTC",
    "month": "Tokens this month, UTC",
    "enqueued": "Batch tokens waiting",
}


@dataclass(frozen=True, slots=True)
class LimitState:
    """``state`` None: use is unknown here. ``source``: plan or tenant."""

    name: str
    where: str  # which pool and class, empty for all
    limit: Limit
    unit: str
    source: str
    state: BucketState | None

    @property
    def used_ratio(self) -> float:
        return self.state.used / self.limit.capacity if self.state else 0.0

    @property
    def held_ratio(self) -> float:
        return self.state.held / self.limit.capacity if self.state else 0.0

    @property
    def words(self) -> str:
        """Used and held against the limit; nothing is used up of what is only held."""
        if self.state is None:
            return f"limit {count(self.limit.amount)} {self.unit}"
        of = f"of {count(self.limit.capacity)}"
        if METER_NAMED[self.limit.meter].kind is Kind.LEVEL:
            return f"{count(self.state.held)} {of}"
        held = f", {count(self.state.held)} held by calls in flight," if self.state.held else ""
        return f"{count(self.state.used)}{held} {of}"

    @property
    def is_near(self) -> bool:
        return self.used_ratio + self.held_ratio >= 0.8


def limit_states(request: HttpRequest, slug: str) -> tuple[LimitState, ...]:
    limits = effective_limits(slug)
    states = _peek(_store_of(request), slug, [one.limit for one in limits])
    return tuple(_shown(one, states.get(one.limit)) for one in limits)


def _shown(one: EffectiveLimit, state: BucketState | None) -> LimitState:
    limit = one.limit
    where = ", ".join(part for part in (limit.pool, limit.klass) if part != "*")
    meter = METER_NAMED[limit.meter]
    return LimitState(NAMES[limit.meter], where, limit, meter.unit, one.source, state)


def _store_of(request: HttpRequest) -> QuotaStore | None:
    fairway = getattr(request, "scope", {}).get("fairway")
    return getattr(fairway, "store", None)


def _peek(store: QuotaStore | None, slug: str, limits: list[Limit]) -> dict[Limit, BucketState]:
    asked = {limit: demand for limit in limits if (demand := _demand(slug, limit))}
    if store is None or not asked:
        return {}
    states = async_to_sync(_read)(store, tuple(asked.values()))
    by_key = {state.key: state for state in states}
    return {limit: by_key[demand.key] for limit, demand in asked.items() if demand.key in by_key}


async def _read(store: QuotaStore, demands: tuple[Demand, ...]) -> tuple[BucketState, ...]:
    try:
        async with asyncio.timeout(PEEK_S):
            return await store.peek(demands)
    except (StoreUnavailable, TimeoutError):
        return ()


def _demand(slug: str, limit: Limit) -> Demand | None:
    """The bucket of one limit; None for a limit that is closed, which has no bucket."""
    klass = next((k for k in PriorityClass if limit.covers(limit.pool, k)), None)
    if klass is None:
        return None
    payer: Any = Payer(tenant=slug, key_id="", tenant_limits=(limit,))
    try:
        demands = demands_for(payer, Place(limit.pool, klass), NOTHING, wall_s=time.time())
    except LimitExceeded:
        return None
    return demands[0] if demands else None
