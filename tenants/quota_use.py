"""What does the running gateway's quota store say of a tenant now? For pages and the control API.

The store is met at ``scope["fairway"]`` where a gateway runs in this process; elsewhere, and where
it does not answer in time, nothing is known and nothing is waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from asgiref.sync import async_to_sync
from django.http import HttpRequest

from gateway.core.limits.demands import (
    BucketKey,
    BucketState,
    Demand,
    QuotaStore,
    StoreUnavailable,
)
from gateway.core.limits.limit import CREDIT
from tenants.selectors.credit import CreditState, credit_of

PEEK_S = 0.5


def bucket_states(request: HttpRequest, demands: Sequence[Demand]) -> dict[BucketKey, BucketState]:
    """Of one tenant; empty where the store is not known or does not answer."""
    store = _store_of(request)
    if store is None or not demands:
        return {}
    states = async_to_sync(_read)(store, tuple(demands))
    return {state.key: state for state in states}


def credit_now(request: HttpRequest, slug: str) -> CreditState | None:
    """With what calls in flight hold. None: the tenant has no account."""
    key = BucketKey(f"org:{slug}", "credit")
    states = bucket_states(request, [Demand(key, CREDIT.kind, CREDIT.reason, 1.0, 0.0)])
    holds = round(states[key].held) if key in states else 0
    return credit_of(slug, holds=holds)


def _store_of(request: HttpRequest) -> QuotaStore | None:
    fairway = getattr(request, "scope", {}).get("fairway")
    return getattr(fairway, "store", None)


async def _read(store: QuotaStore, demands: tuple[Demand, ...]) -> tuple[BucketState, ...]:
    try:
        async with asyncio.timeout(PEEK_S):
            return await store.peek(demands)
    except (StoreUnavailable, TimeoutError):
        return ()
