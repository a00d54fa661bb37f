"""Limits on a tenant's page, read from the gateway's own store."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from dashboard.numbers import GAP
from dashboard.quota import limit_states
from gateway.core.clock import SystemClock
from gateway.core.cost import FREE
from gateway.core.dispatch.effects import Usage
from gateway.core.limits.limit import Limit
from gateway.core.limits.plan import CallSize, Payer, Place, actual_for, demands_for
from gateway.core.priority import PriorityClass
from gateway.stores.memory import MemoryStore
from tests import factories

LIMITS = (Limit("tpm", 60_000), Limit("concurrent", 40))
PLACE = Place("p", PriorityClass.INTERACTIVE)


def request(store: Any) -> Any:
    return SimpleNamespace(scope={"fairway": SimpleNamespace(store=store)})


async def one_running_one_settled(store: MemoryStore) -> None:
    payer = Payer("acme", "k", LIMITS)
    for call_id in ("settled", "running"):
        size = CallSize(input_tokens=2_000, output_tokens=1_000, prompt_bytes=8_000)
        demands = demands_for(payer, PLACE, size, wall_s=0.0)
        await store.reserve(call_id, demands)
    owed = actual_for(
        [one.key for one in demands], Usage(30_000, 0, 12_600), cached_ratio=0.1, prices=FREE
    )
    await store.settle("settled", owed)


@pytest.fixture
def shown(db: None) -> dict[str, Any]:
    factories.organization("acme", limits=LIMITS)
    store = MemoryStore(SystemClock(), None)
    async_to_sync(one_running_one_settled)(store)
    return {one.limit.meter: one for one in limit_states(request(store), "acme") if not one.where}


def test_use_stands_beside_the_limit(shown: dict[str, Any]) -> None:
    """A rate bucket counts a running call's reservation as used until it settles."""
    assert shown["tpm"].words.replace(GAP, " ").endswith(" of 60,000")
    assert shown["tpm"].used_ratio == pytest.approx(0.76, abs=0.02)


def test_what_is_only_held_is_told_as_in_use(shown: dict[str, Any]) -> None:
    assert shown["concurrent"].words == "1 of 40"


def test_above_eighty_percent_is_marked(shown: dict[str, Any]) -> None:
    near = replace(shown["concurrent"], state=replace(shown["concurrent"].state, held=32.0))
    assert near.is_near
    assert not shown["concurrent"].is_near


def test_without_a_store_the_limit_alone_is_told(db: None) -> None:
    factories.organization("acme", limits=LIMITS)
    states = limit_states(SimpleNamespace(), "acme")  # type: ignore[arg-type]
    assert any(one.words == "limit 60,000 tokens per minute" for one in states)
