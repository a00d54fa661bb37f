"""A parallel burst never passes a bucket, at both stores; and this check can fail."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from gateway.core.limits.bucket import state_of, wait_s
from gateway.core.limits.demands import (
    BucketKey,
    BucketState,
    Demand,
    QuotaStore,
    Refused,
    Reservation,
)
from tests.stores.factories import call_id, demand

CALLS, PLACES, REPETITIONS = 200, 50, 100


class CheckThenIncrement:
    """Reads, lets others run, then writes: what a store must not do."""

    def __init__(self) -> None:
        self._held: dict[BucketKey, float] = {}

    async def reserve(self, call_id: str, demands: tuple[Demand, ...]) -> Reservation | Refused:
        held = [self._held.get(d.key, 0.0) for d in demands]
        await asyncio.sleep(0)
        for d, before in zip(demands, held, strict=True):
            if (wait := wait_s(d, 0, before)) is not None:
                return Refused(d, d.capacity, before, d.amount, wait)
        for d, before in zip(demands, held, strict=True):
            self._held[d.key] = before + d.amount
        return Reservation(call_id, await self.peek(demands))

    async def settle(self, call_id: str, actual: Mapping[BucketKey, float] | None) -> None: ...

    async def renew(self, call_ids: tuple[str, ...]) -> None: ...

    async def peek(self, demands: tuple[Demand, ...]) -> tuple[BucketState, ...]:
        return tuple(state_of(d.key, d, 0, self._held.get(d.key, 0.0)) for d in demands)

    async def seed(self, key: BucketKey, used: float) -> None: ...


async def admitted_of_burst(store: QuotaStore, asked: Demand) -> int:
    calls = [call_id() for _ in range(CALLS)]
    answers = await asyncio.gather(*(store.reserve(call, (asked,)) for call in calls))
    return sum(isinstance(answer, Reservation) for answer in answers)


@pytest.mark.parametrize("meter", ["rpm", "day", "concurrent"])
async def test_burst_of_200_at_a_bucket_for_50_admits_exactly_50(
    store: QuotaStore, meter: str
) -> None:
    """G2, row 27: 100 repetitions over the three kinds of bucket."""
    for number in range(REPETITIONS // 3 + 1):
        asked = demand(meter, 1, PLACES, tenant=f"t{number}", window_s=1e6)
        assert await admitted_of_burst(store, asked) == PLACES


async def test_check_then_increment_fails_the_burst() -> None:
    """G2: the check above can fail."""
    assert await admitted_of_burst(CheckThenIncrement(), demand("rpm", 1, PLACES)) > PLACES
