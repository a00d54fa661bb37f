"""Budgets survive the loss of the quota store: the ledger says what had been spent."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from gateway.core.limits.demands import BucketKey
from gateway.core.limits.limit import Limit
from gateway.core.priority import PriorityClass
from gateway.seeding import seed_budgets
from gateway.snapshot.values import Snapshot
from tenants.services.ledger import insert_calls
from tests.fakes.data_plane import tenant
from tests.gateway.factories import ARRIVED_AT, call_record

MONTH_S = 31 * 86_400.0


class Seeds(dict[str, float]):
    async def seed(self, key: BucketKey, used: float) -> None:
        self[str(key)] = used


def snapshot_of(*limits: Limit, **fields: Any) -> Snapshot:
    owner = replace(tenant("acme", limits=limits), **fields)
    return Snapshot(1, 0.0, {"acme": owner}, {}, {}, {}, {})


@pytest.mark.django_db(transaction=True)
def test_budgets_start_from_what_the_ledger_charged() -> None:
    insert_calls(
        [
            call_record("a", prompt_tokens=100, cached_tokens=40, completion_tokens=20),
            call_record("b", klass=PriorityClass.BATCH, cached_tokens=0),
            call_record("last month", arrived_at=ARRIVED_AT - MONTH_S),
            call_record("another tenant", tenant="other"),
        ]
    )
    seeds = Seeds()
    limits = Limit("day", 1000), Limit("month", 9000, klass="batch"), Limit("tpm", 50)
    asyncio.run(seed_budgets(seeds, snapshot_of(*limits, cached_ratio=0.5), ARRIVED_AT))
    assert list(seeds.values()) == [100 + 120, 120]


@pytest.mark.django_db(transaction=True)
def test_credit_starts_from_what_the_account_was_charged() -> None:
    seeds = Seeds()
    spent = {"credit_limit_microcredits": 500, "credit_charged_microcredits": 320}
    asyncio.run(seed_budgets(seeds, snapshot_of(**spent), ARRIVED_AT))
    assert seeds == {"org:acme|*|*|credit|": 320}
