from __future__ import annotations

import pytest

from gateway.core.clock import SystemClock
from gateway.core.limits.demands import (
    BucketKey,
    Demand,
    Kind,
    QuotaStore,
    Reservation,
    StoreUnavailable,
)
from gateway.core.reasons import Reason
from gateway.ledger.guard import HardBudgetGuard
from gateway.stores.memory import MemoryStore

DAY = Demand(
    BucketKey("org:acme", "day", period="2026-11-30"), Kind.BUDGET, Reason.DAILY_BUDGET, 100.0, 10.0
)
SOFT_DAY = Demand(
    BucketKey("org:soft", "day", period="2026-11-30"),
    Kind.BUDGET,
    Reason.DAILY_BUDGET,
    100.0,
    10.0,
    fails_closed=False,
)
RATE = Demand(
    BucketKey("org:acme", "tpm"), Kind.RATE, Reason.TOKENS_PER_MINUTE, 100.0, 10.0
)  # fmt: skip


async def test_hard_budgets_are_refused_while_records_may_be_lost_and_others_are_not() -> None:
    """Row 35."""
    safe = False
    memory: QuotaStore = MemoryStore(SystemClock(), None)
    store = HardBudgetGuard(memory, lambda: safe)
    with pytest.raises(StoreUnavailable):
        await store.reserve("a", (RATE, DAY))
    for call_id, demand in (("b", RATE), ("c", SOFT_DAY)):
        assert isinstance(await store.reserve(call_id, (demand,)), Reservation)
    safe = True
    assert isinstance(await store.reserve("a", (RATE, DAY)), Reservation)
    [rate, day] = await store.peek((RATE, DAY))
    assert (round(rate.remaining), day.held) == (80, 10.0)
    await store.renew(("a",))
    await store.settle("a", {DAY.key: 4.0})
    [day] = await store.peek((DAY,))
    assert (day.used, day.held) == (4.0, 0.0)
