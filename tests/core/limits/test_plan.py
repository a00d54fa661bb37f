from __future__ import annotations

from datetime import UTC, datetime

import pytest

from gateway.core.cost import Prices
from gateway.core.dispatch.effects import Usage
from gateway.core.errors import LimitExceeded, Rejected
from gateway.core.limits.demands import Demand
from gateway.core.limits.limit import ONLINE, Limit
from gateway.core.limits.plan import (
    DEFAULT_OUTPUT_CAP_TOKENS,
    CallSize,
    Payer,
    Place,
    actual_for,
    demands_for,
)
from gateway.core.priority import PriorityClass
from gateway.core.reasons import Reason

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC).timestamp()
STANDARD = Place("llama", PriorityClass.STANDARD)
BATCH = Place("llama", PriorityClass.BATCH)
SIZE = CallSize(input_tokens=100, output_tokens=256, prompt_bytes=400)
PRICES = Prices(input_per_mtok=1_000_000, cached_per_mtok=500_000, output_per_mtok=2_000_000)
EVERY_METER = tuple(
    Limit(meter, 1_000_000)
    for meter in ("tpm", "itpm", "otpm", "rpm", "concurrent", "day", "month", "enqueued")
)


def demands(
    *limits: Limit, size: CallSize = SIZE, place: Place = STANDARD, credit: int | None = None
) -> dict[str, Demand]:
    payer = Payer("acme", "k1", limits, credit_limit_microcredits=credit, prices=PRICES)
    return {d.key.meter: d for d in demands_for(payer, place, size, wall_s=NOW)}


def test_online_call_touches_every_meter_but_enqueued() -> None:
    assert set(demands(*EVERY_METER)) == {
        "tpm", "itpm", "otpm", "rpm", "concurrent", "day", "month",
    }  # fmt: skip


def test_batch_call_touches_only_totals_and_enqueued() -> None:
    """A tenant's batch never blocks its own interactive calls."""
    online = tuple(Limit(m, 10, klass=ONLINE) for m in ("tpm", "rpm", "concurrent"))
    assert set(demands(*EVERY_METER, *online, place=BATCH)) == {"day", "month", "enqueued"}


def test_interactive_and_standard_share_the_online_bucket() -> None:
    limit = Limit("tpm", 1_000, klass=ONLINE)
    interactive = demands(limit, place=Place("llama", PriorityClass.INTERACTIVE))
    assert interactive["tpm"].key == demands(limit)["tpm"].key


def test_limit_of_another_pool_does_not_apply_and_both_own_ones_do() -> None:
    limits = [Limit("rpm", 5, pool=pool) for pool in ("*", "llama", "other")]
    payer = Payer("acme", "k1", limits)
    found = demands_for(payer, STANDARD, SIZE, wall_s=NOW)
    assert [d.key.pool for d in found] == ["*", "llama"]


def test_key_limits_hold_beside_those_of_the_organization() -> None:
    payer = Payer("acme", "k1", (Limit("rpm", 5),), (Limit("rpm", 2),))
    owners = [d.key.owner for d in demands_for(payer, STANDARD, SIZE, wall_s=NOW)]
    assert owners == ["org:acme", "key:acme/k1"]


def test_of_two_limits_for_one_bucket_the_tighter_counts() -> None:
    assert demands(Limit("rpm", 5), Limit("rpm", 2), Limit("rpm", 9))["rpm"].capacity == 2


def test_rate_buckets_take_the_estimate() -> None:
    found = demands(*EVERY_METER)
    assert [found[m].amount for m in ("tpm", "itpm", "otpm", "rpm")] == [356, 100, 256, 1]


def test_estimate_is_never_above_the_callers_cap() -> None:
    size = CallSize(100, 256, 400, output_cap_tokens=10)
    assert demands(Limit("otpm", 1_000), size=size)["otpm"].amount == 10


def test_estimate_larger_than_the_bucket_is_clamped_not_refused() -> None:
    """G3: no cap given and a reservation larger than the bucket."""
    assert demands(Limit("tpm", 100))["tpm"].amount == 100
    assert demands(Limit("day", 100))["day"].amount <= 100


def test_hard_budgets_take_the_worst_case() -> None:
    size = CallSize(100, 256, 400, output_cap_tokens=3_000)
    found = demands(*EVERY_METER, size=size, credit=10**9)
    assert found["day"].amount == found["month"].amount == 400 / 2 + 3_000
    assert found["credit"].amount == 200 * 1 + 3_000 * 2


def test_worst_case_without_a_cap_is_bounded() -> None:
    """G3: a small budget is not taken whole by one call that names no cap."""
    assert demands(Limit("day", 2_000))["day"].amount == 200 + 256
    assert demands(Limit("day", 1e9))["day"].amount == 200 + DEFAULT_OUTPUT_CAP_TOKENS


@pytest.mark.parametrize("meter", ["tpm", "otpm", "day", "month"])
def test_cap_that_can_never_fit_is_refused(meter: str) -> None:
    """G3: impossible is 400."""
    with pytest.raises(Rejected) as refused:
        demands(Limit(meter, 1_000), size=CallSize(1, 1, 4, output_cap_tokens=1_001))
    assert refused.value.reason is Reason.CANNOT_FIT
    assert refused.value.status == 400


def test_prompt_that_can_never_fit_is_refused_by_its_bytes_alone() -> None:
    """G3: 16,016 bytes are 1,001 tokens at the very least; an estimate of more refuses nothing."""
    limit = Limit("itpm", 1_000)
    assert demands(limit, size=CallSize(9_999, 1, 16_015))["itpm"].amount == 1_000
    with pytest.raises(Rejected):
        demands(limit, size=CallSize(1, 1, 16_016))


def test_cap_above_the_whole_credit_is_refused() -> None:
    with pytest.raises(Rejected) as refused:
        demands(size=CallSize(1, 1, 4, output_cap_tokens=501), credit=1_000)
    assert refused.value.reason is Reason.CANNOT_FIT


def test_empty_credit_account_is_exhausted_not_impossible() -> None:
    with pytest.raises(LimitExceeded) as refused:
        demands(credit=0)
    assert refused.value.reason is Reason.CREDIT_EXHAUSTED
    assert refused.value.retry_after_s


def test_limit_of_zero_closes_its_meter() -> None:
    with pytest.raises(LimitExceeded) as refused:
        demands(Limit("rpm", 0))
    assert refused.value.status == 429


def test_burst_is_the_capacity_and_the_rate_stays() -> None:
    found = demands(Limit("tpm", 600, burst=1_200))["tpm"]
    assert (found.capacity, found.capacity / found.window_s) == (1_200, 10)


def test_budgets_name_their_utc_period_and_its_end() -> None:
    """Row 78."""
    found = demands(Limit("day", 1e6), Limit("month", 1e6))
    assert (found["day"].key.period, found["day"].resets_in_s) == ("2026-11-30", 12 * 3_600)
    assert (found["month"].key.period, found["month"].resets_in_s) == ("2026-11", 12 * 3_600)


@pytest.mark.parametrize(("ratio", "counted"), [(0.0, 40), (0.1, 46), (1.0, 100)])
def test_plan_says_what_cached_tokens_count(ratio: float, counted: float) -> None:
    found = [d.key for d in demands(*EVERY_METER, credit=10**9).values()]
    owed = actual_for(found, Usage(100, 60, 20), cached_ratio=ratio, prices=PRICES)
    by_meter = {key.meter: amount for key, amount in owed.items()}
    assert by_meter["itpm"] == pytest.approx(counted)
    assert by_meter["tpm"] == by_meter["day"] == by_meter["month"] == pytest.approx(counted + 20)
    assert (by_meter["otpm"], by_meter["rpm"]) == (20, 1)
    assert by_meter["credit"] == 40 * 1 + 60 * 0.5 + 20 * 2, "the price does not depend on it"


def test_what_is_only_held_is_charged_nothing() -> None:
    found = [d.key for d in demands(*EVERY_METER, place=BATCH).values()]
    owed = actual_for(found, Usage(100, 0, 20), cached_ratio=1.0, prices=PRICES)
    assert {key.meter for key in owed} == {"day", "month"}
