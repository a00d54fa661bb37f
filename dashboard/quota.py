"""How much of each limit, and of the credit, is used, held by calls in flight, and left, now?

Read from the running gateway's quota store, where this process has one; without it the limits are
shown without use.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest

from dashboard.numbers import count, credits
from gateway.core.errors import LimitExceeded
from gateway.core.limits.demands import BucketState, Demand, Kind
from gateway.core.limits.limit import METER_NAMED, Limit
from gateway.core.limits.plan import CallSize, Payer, Place, demands_for
from gateway.core.priority import PriorityClass
from tenants.quota_use import bucket_states, credit_now
from tenants.selectors.credit import CreditState
from tenants.selectors.limits import EffectiveLimit, effective_limits

NEAR = 0.8  # of a limit: worth a word
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
        return f"{count(self.state.used)} used{held} {of}"

    @property
    def is_near(self) -> bool:
        return self.used_ratio + self.held_ratio >= NEAR


@dataclass(frozen=True, slots=True)
class CreditUse:
    """The account as a bar: what was charged and what is held, of all that may be charged."""

    state: CreditState
    name: str = "Credit"

    @property
    def _all(self) -> int:
        return max(1, self.state.granted - self.state.expired)

    @property
    def used_ratio(self) -> float:
        return self.state.charged / self._all

    @property
    def held_ratio(self) -> float:
        return self.state.holds / self._all

    @property
    def is_near(self) -> bool:
        return self.used_ratio + self.held_ratio >= NEAR

    @property
    def words(self) -> str:
        held = f", {credits(self.state.holds)} held by calls in flight," if self.state.holds else ""
        left = f"; {credits(self.state.balance)} left"
        return f"{credits(self.state.charged)} charged{held} of {credits(self._all)} credits{left}"


def limit_states(request: HttpRequest, slug: str) -> tuple[LimitState, ...]:
    limits = effective_limits(slug)
    asked = {one.limit: demand for one in limits if (demand := _demand(slug, one.limit))}
    states = bucket_states(request, tuple(asked.values()))
    return tuple(
        _shown(one, states.get(asked[one.limit].key) if one.limit in asked else None)
        for one in limits
    )


def credit_use(request: HttpRequest, slug: str) -> CreditUse | None:
    """None: the tenant has no credit account, its calls are not charged."""
    state = credit_now(request, slug)
    return None if state is None else CreditUse(state)


def _shown(one: EffectiveLimit, state: BucketState | None) -> LimitState:
    limit = one.limit
    where = ", ".join(part for part in (limit.pool, limit.klass) if part != "*")
    meter = METER_NAMED[limit.meter]
    return LimitState(NAMES[limit.meter], where, limit, meter.unit, one.source, state)


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
