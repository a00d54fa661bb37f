"""Limits on a tenant's page, read from the gateway's own store."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from asgiref.sync import async_to_sync

from dashboard.numbers import GAP
from dashboard.quota import credit_use, limit_states
from gateway.core.clock import SystemClock
from gateway.core.cost import FREE, Prices
from gateway.core.dispatch.effects import Usage
from gateway.core.limits.limit import Limit
from gateway.core.limits.plan import CallSize, Payer, Place, actual_for, demands_for
from gateway.core.priority import PriorityClass
from gateway.stores.memory import MemoryStore
from tenants.services import credit
from tests import factories
from tests.factories import TESTER

PRICES = Prices(0, 0, 10_000_000_000)  # 10,000 microcredits per output token
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


def test_use_and_what_running_calls_hold_stand_beside_the_limit(shown: dict[str, Any]) -> None:
    assert shown["tpm"].words.replace(GAP, " ").endswith("3,000 held by calls in flight, of 60,000")
    assert shown["tpm"].used_ratio == pytest.approx(0.71, abs=0.02)
    assert shown["tpm"].held_ratio == pytest.approx(0.05)


def test_what_is_only_held_is_told_as_in_use(shown: dict[str, Any]) -> None:
    assert shown["concurrent"].words == "1 of 40"


def test_above_eighty_percent_is_marked(shown: dict[str, Any]) -> None:
    near = replace(
        shown["concurrent"], state=msgspec.structs.replace(shown["concurrent"].state, held=32.0)
    )
    assert near.is_near
    assert not shown["concurrent"].is_near


def test_without_a_store_the_limit_alone_is_told(db: None) -> None:
    factories.organization("acme", limits=LIMITS)
    states = limit_states(SimpleNamespace(), "acme")  # type: ignore[arg-type]
    assert any(one.words == "limit 60,000 tokens per minute" for one in states)


async def one_call_holds_credit(store: MemoryStore) -> None:
    payer = Payer("acme", "k", credit_limit_microcredits=4_000_000, prices=PRICES)
    size = CallSize(input_tokens=0, output_tokens=0, prompt_bytes=0, output_cap_tokens=100)
    await store.reserve("running", demands_for(payer, PLACE, size, wall_s=0.0))


def test_credit_tells_what_calls_in_flight_hold(db: None) -> None:
    factories.organization("acme")
    credit.grant(slug="acme", amount_microcredits=4_000_000, actor=TESTER, why="x")
    store = MemoryStore(SystemClock(), None)
    async_to_sync(one_call_holds_credit)(store)
    use = credit_use(request(store), "acme")
    assert use is not None
    assert use.state.holds == 1_000_000
    assert use.words == "0.00 charged, 1.00 held by calls in flight, of 4.00 credits; 3.00 left"
    assert use.held_ratio == pytest.approx(0.25)


def test_tenant_without_an_account_shows_no_credit(db: None) -> None:
    factories.organization("acme")
    assert credit_use(request(None), "acme") is None
