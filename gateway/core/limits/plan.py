"""Which buckets does a call touch, what does it reserve in each, and what does it owe at the end?

- Organization and key limits apply side by side; so do those of the call's pool and of all pools.
- Rate buckets and ``enqueued`` take the calibrated estimate, clamped to the bucket.
- Hard budgets (day, month, credit) take the worst case: prompt bytes / 2 and the caller's own cap;
  a caller without a cap gets a bounded default. Never more than the bucket.
- An estimate never refuses a call: only the caller's own cap, or bytes / 16, can be ``cannot_fit``.
- Of two limits for one bucket the tighter counts.
- A limit below one unit closes its meter: the refusal is that meter's own.

Units: tokens, microcredits for credit, calls for rpm and concurrent. Pure; the wall clock
only names periods.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from gateway.core.cost import FREE, Prices, price_microcredits
from gateway.core.dispatch.effects import Usage
from gateway.core.errors import LimitExceeded, Rejected
from gateway.core.limits.demands import BucketKey, Demand
from gateway.core.limits.limit import CREDIT, METER_NAMED, Limit, Meter
from gateway.core.limits.periods import PERIODS
from gateway.core.priority import PriorityClass
from gateway.core.reasons import Reason

MINUTE_S = 60.0
DEFAULT_OUTPUT_CAP_TOKENS = 4_096  # per choice, when the caller gives no cap
LEAST_BYTES_PER_TOKEN = 2  # worst case of hard budgets
MOST_BYTES_PER_TOKEN = 16  # no tokenizer packs more: below this a prompt can be refused
UNCAPPED_SHARE = 1 / 20  # of a budget: what a call without a cap may hold beyond its estimate
CREDIT_LOOK_AGAIN_S = 3_600.0  # credit does not refill; a top-up is noticed within this time
CLOSED_LOOK_AGAIN_S = 3_600.0
OF_CALLS = frozenset({"rpm", "concurrent"})


class CallSize(msgspec.Struct, frozen=True):
    """What a call may consume. ``output_tokens``: calibrated estimate for all choices together.

    ``output_cap_tokens``: the caller's own (the larger of two), times the number of choices; None
    if it gave none. ``prompt_bytes``: text only, never media.
    """

    input_tokens: int
    output_tokens: int
    prompt_bytes: int
    output_cap_tokens: int | None = None
    choices: int = 1

    @property
    def expected_output(self) -> int:
        cap = self.output_cap_tokens
        return self.output_tokens if cap is None else min(self.output_tokens, cap)

    def worst_output(self, capacity: float) -> int:
        if self.output_cap_tokens is not None:
            return self.output_cap_tokens
        bounded = max(self.output_tokens, int(capacity * UNCAPPED_SHARE))
        return min(DEFAULT_OUTPUT_CAP_TOKENS * self.choices, bounded)

    @property
    def worst_input(self) -> int:
        return max(self.input_tokens, -(-self.prompt_bytes // LEAST_BYTES_PER_TOKEN))

    @property
    def least_input(self) -> int:
        return self.prompt_bytes // MOST_BYTES_PER_TOKEN


@dataclass(frozen=True, slots=True)
class Payer:
    """Who is charged. ``credit_limit_microcredits`` None: no credit account.

    ``budgets_fail_closed``: while the shared store is lost, token budgets refuse (credit always).
    """

    tenant: str
    key_id: str
    tenant_limits: Sequence[Limit] = ()
    key_limits: Sequence[Limit] = ()
    credit_limit_microcredits: int | None = None
    prices: Prices = FREE
    budgets_fail_closed: bool = True


@dataclass(frozen=True, slots=True)
class Place:
    """Where the call is to run."""

    pool: str
    klass: PriorityClass


class Plan:
    """The limits that bind calls of one payer at one place: found once, asked for every call."""

    def __init__(self, payer: Payer, place: Place) -> None:
        self._payer = payer
        self._credit_key = BucketKey(f"org:{payer.tenant}", "credit")
        self._binding = tuple(
            _binding(owner, limit, fails_closed=payer.budgets_fail_closed)
            for owner, limit in _limits(payer)
            if limit.covers(place.pool, place.klass)
        )

    def demands(self, size: CallSize, *, wall_s: float) -> tuple[Demand, ...]:
        """Raises Rejected(CANNOT_FIT), or LimitExceeded for a limit that is closed (below one
        unit)."""
        payer = self._payer
        demands: dict[BucketKey, Demand] = {}
        for binding in self._binding:
            demand = binding.of_calls or _demand(
                binding, size, wall_s=wall_s, fails_closed=payer.budgets_fail_closed
            )
            known = demands.get(demand.key)
            if known is None or demand.capacity < known.capacity:
                demands[demand.key] = demand
        if payer.credit_limit_microcredits is not None:
            credit = _credit(payer, payer.credit_limit_microcredits, size, self._credit_key)
            demands[credit.key] = credit
        return tuple(demands.values())


def demands_for(payer: Payer, place: Place, size: CallSize, *, wall_s: float) -> tuple[Demand, ...]:
    """Of one call alone; raises what ``Plan.demands`` raises."""
    return Plan(payer, place).demands(size, wall_s=wall_s)


def actual_for(
    keys: Iterable[BucketKey], usage: Usage, *, cached_ratio: float, prices: Prices
) -> Mapping[BucketKey, float]:
    """What each bucket is charged. ``cached_ratio`` (0, 0.1, 1): how much a cached token counts.

    What is held only (concurrent, enqueued) is left out: it is released whatever is said.
    """
    cached = min(usage.cached_tokens, usage.input_tokens)
    counted = usage.input_tokens - cached + cached_ratio * cached
    price = price_microcredits(prices, usage.input_tokens, cached, usage.output_tokens)
    total = counted + usage.output_tokens
    owed = {
        "tpm": total,
        "itpm": counted,
        "otpm": float(usage.output_tokens),
        "rpm": 1.0,
        "day": total,
        "month": total,
        "credit": float(price),
    }
    return {key: owed[key.meter] for key in keys if key.meter in owed}


def _limits(payer: Payer) -> Iterator[tuple[str, Limit]]:
    for limit in payer.tenant_limits:
        yield f"org:{payer.tenant}", limit
    for limit in payer.key_limits:
        yield f"key:{payer.tenant}/{payer.key_id}", limit


@dataclass(frozen=True, slots=True)
class _Binding:
    """One limit of one owner. ``key``: its bucket; of a meter with periods, before one is named."""

    limit: Limit
    meter: Meter
    key: BucketKey
    capacity: float
    least_capacity: float
    window_s: float
    of_calls: Demand | None  # what every call demands, of a meter that counts calls


def _binding(owner: str, limit: Limit, *, fails_closed: bool) -> _Binding:
    key = BucketKey(owner, limit.meter, limit.pool, limit.klass)
    least = min(limit.amount, limit.capacity)
    window_s = MINUTE_S * limit.capacity / limit.amount if limit.amount else MINUTE_S
    meter = METER_NAMED[limit.meter]
    of_calls: Demand | None = None
    if limit.meter in OF_CALLS and least >= 1:
        of_calls = Demand(
            key, meter.kind, meter.reason, limit.capacity, 1.0, window_s, MINUTE_S, fails_closed
        )
    return _Binding(limit, meter, key, limit.capacity, least, window_s, of_calls)


def _demand(binding: _Binding, size: CallSize, *, wall_s: float, fails_closed: bool) -> Demand:
    limit, meter, key, capacity = binding.limit, binding.meter, binding.key, binding.capacity
    resets_in_s = MINUTE_S
    if limit.meter in PERIODS:
        period = PERIODS[limit.meter](wall_s)
        key = BucketKey(key.owner, key.meter, key.pool, key.klass, period.name)
        resets_in_s = period.ends_in_s
    if binding.least_capacity < 1:
        raise _closed(key, meter)
    if (least := _least(limit.meter, size)) > capacity:
        raise _unfit(meter, least, capacity)
    return Demand(
        key,
        meter.kind,
        meter.reason,
        capacity,
        min(_wanted(limit, size), capacity),
        binding.window_s,
        resets_in_s,
        fails_closed,
    )


def _credit(payer: Payer, capacity: int, size: CallSize, key: BucketKey) -> Demand:
    if capacity < 1:
        raise _closed(key, CREDIT)
    tokens_for_capacity = capacity * 1e6 / max(payer.prices.output_per_mtok, 1)
    worst = price_microcredits(
        payer.prices, size.worst_input, 0, size.worst_output(tokens_for_capacity)
    )
    least = price_microcredits(payer.prices, 0, 0, size.output_cap_tokens or 0)
    if least > capacity:
        raise _unfit(CREDIT, least, capacity)
    return Demand(
        key,
        CREDIT.kind,
        CREDIT.reason,
        float(capacity),
        float(min(worst, capacity)),
        resets_in_s=CREDIT_LOOK_AGAIN_S,
    )


def _wanted(limit: Limit, size: CallSize) -> float:
    match limit.meter:
        case "rpm" | "concurrent":
            return 1.0
        case "itpm":
            return max(1, size.input_tokens)
        case "otpm":
            return max(1, size.expected_output)
        case "day" | "month":
            return max(1, size.worst_input + size.worst_output(limit.capacity))
        case _:
            return max(1, size.input_tokens + size.expected_output)


def _least(meter: str, size: CallSize) -> float:
    """Tokens below which the caller itself rules out that the call stays."""
    cap = size.output_cap_tokens or 0
    match meter:
        case "rpm" | "concurrent":
            return 1.0
        case "itpm":
            return size.least_input
        case "otpm":
            return cap
        case _:
            return max(size.least_input, cap)


def _unfit(meter: Meter, least: float, capacity: float) -> Rejected:
    return Rejected(
        Reason.CANNOT_FIT,
        f"The call needs at least {least:.0f} {meter.unit}; the limit is {capacity:.0f}.",
    )


def _closed(key: BucketKey, meter: Meter) -> LimitExceeded:
    return LimitExceeded(
        meter.reason,
        f"The limit of {meter.unit} is zero.",
        bucket=str(key),
        limit=0.0,
        used=0.0,
        needed=1.0,
        retry_after_s=CLOSED_LOOK_AGAIN_S,
    )
