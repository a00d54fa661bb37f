"""Whose fault is a failed call? A broken replica fails alone; a bad request fails everywhere."""

from __future__ import annotations

import asyncio
from typing import Any

from gateway.core.records import CallRecord
from tests.fakes import scripts
from tests.fakes.data_plane import House, chat, replica, tenant
from tests.fakes.scripts import Script

TWO = (tenant("mallory"), tenant("alice"))
THREE = tuple(replica(f"r{n}") for n in range(3))
POISON = b"poison"


def states(house: House) -> dict[str, str]:
    return {live.replica: live.state for live in house.gateway.fleet.live()}


def all_serve(house: House) -> bool:
    return set(states(house).values()) == {"serving"}


def poisonous(bad: Script) -> Any:
    good = scripts.tokens(2)
    return lambda target, body: bad if POISON in body else good


def test_requests_that_fail_everywhere_take_no_replica_from_the_others(in_house: Any) -> None:
    """Row 48: 500 for each of 300 crafted requests, beside another tenant that hardly calls."""

    async def scenario(house: House) -> None:
        house.scripted.default = poisonous(scripts.status(500))
        for number in range(300):
            if number % 50 == 0:
                assert (await house.call(chat(), tenant="alice")).status == 200
            await house.call(chat("poison"), tenant="mallory")
            assert all_serve(house)

    in_house(scenario, tenants=TWO, replicas=THREE)


def test_requests_that_hang_everywhere_take_no_replica_from_the_others(in_house: Any) -> None:
    """G14: no token for 60 s, of one tenant only."""

    async def scenario(house: House) -> None:
        house.scripted.default = poisonous(scripts.hang_after(0))
        assert (await house.call(chat(), tenant="alice")).status == 200
        async with asyncio.TaskGroup() as callers:
            for _ in range(6):
                callers.create_task(house.call(chat("poison", stream=True), tenant="mallory"))
            for _ in range(59):
                await asyncio.sleep(1.0)
                assert all_serve(house)

    in_house(scenario, tenants=TWO, replicas=THREE)


def test_a_broken_replica_is_ejected_though_one_tenant_makes_all_calls(in_house: Any) -> None:
    """Row 48, a 500 loop: what failed there and succeeded elsewhere is evidence."""

    async def scenario(house: House) -> None:
        house.scripted.always["r0"] = scripts.status(500)
        assert (await house.call(chat(), tenant="alice")).status == 200
        for _ in range(60):
            await house.call(chat(), tenant="mallory")
        assert states(house)["r0"] == "ejected"
        assert sum(_failed_at(record, "r0") for record in house.records) <= 6

    in_house(scenario, tenants=TWO, replicas=THREE)


def _failed_at(record: CallRecord, slug: str) -> int:
    return sum(each.replica == slug and each.reason is not None for each in record.attempts)
