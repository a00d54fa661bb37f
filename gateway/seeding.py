"""What had been spent of every budget before this process began?

Budgets of a day or a month and credit outlive the quota store: what the ledger has charged is the
least that their buckets may show. Seeding only ever raises a bucket, so it is harmless to repeat
and harmless when the store has kept more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Protocol

from django.db import connection

from gateway.core.limits.demands import BucketKey
from gateway.core.limits.limit import Limit
from gateway.core.limits.periods import PERIODS
from gateway.snapshot.values import Snapshot
from tenants.selectors.ledger import Consumption, consumption, day_span, month_span

SPANS = {"day": day_span, "month": month_span}
Used = tuple[BucketKey, float]


class Seedable(Protocol):
    async def seed(self, key: BucketKey, used: float) -> None: ...


async def seed_budgets(store: Seedable, snapshot: Snapshot, now_at: float) -> None:
    """Raises django.db.Error when the ledger cannot be read."""
    for tenant in snapshot.tenants.values():
        if tenant.credit_limit_microcredits is not None:
            key = BucketKey(f"org:{tenant.slug}", "credit")
            await store.seed(key, tenant.credit_charged_microcredits)
    for meter in SPANS:
        spent = await asyncio.to_thread(_spent, meter, now_at)
        for key, used in _budgets(meter, snapshot, spent, now_at):
            await store.seed(key, used)


def _spent(meter: str, now_at: float) -> list[Consumption]:
    """In a thread that has other work later: leaves no connection behind."""
    try:
        return consumption(SPANS[meter](datetime.fromtimestamp(now_at, UTC)))
    finally:
        connection.close()


def _budgets(
    meter: str, snapshot: Snapshot, spent: list[Consumption], now_at: float
) -> Iterator[Used]:
    period = PERIODS[meter](now_at).name
    for owner, ratio, limit, rows in _limits(meter, snapshot, spent):
        used = sum(_counted(row, ratio) for row in rows if limit.covers(row.pool, row.klass))
        if used:
            yield BucketKey(owner, meter, limit.pool, limit.klass, period), used


def _limits(
    meter: str, snapshot: Snapshot, spent: list[Consumption]
) -> Iterator[tuple[str, float, Limit, Iterable[Consumption]]]:
    """Owner, how much a cached token counts, limit, and the rows of that owner."""
    for tenant in snapshot.tenants.values():
        rows = [row for row in spent if row.tenant == tenant.slug]
        for limit in tenant.limits:
            if rows and limit.meter == meter:
                yield f"org:{tenant.slug}", tenant.cached_ratio, limit, rows
    for key in snapshot.keys.values():
        tenant = snapshot.tenants[key.tenant]
        for limit in key.limits:
            if limit.meter == meter:
                rows = [row for row in spent if row.key_id == key.key_id]
                yield f"key:{key.tenant}/{key.key_id}", tenant.cached_ratio, limit, rows


def _counted(row: Consumption, cached_ratio: float) -> float:
    fresh = row.prompt_tokens - row.cached_tokens
    return fresh + cached_ratio * row.cached_tokens + row.completion_tokens
