"""A caller may leave at any moment: upstream closed, slot free, tokens that were produced
charged."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from gateway.core.reasons import Outcome
from tests.fakes.data_plane import House, chat, limit, replica, tenant
from tests.fakes.scripts import hang_before_headers, tokens
from tests.stores.factories import demand

ONE_SLOT = (replica("r1", slots=1),)
ONE_RUNS = {"pool in flight": 1, "pool on replicas": 1, "open attempts": 1}


async def leaves_after(house: House, seconds: float, **fields: Any) -> None:
    leave = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, leave.set)
    await house.call(chat(**fields), leave=leave)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("after_s", "charged"), [(0.5, 0), (1.05, 1), (1.25, 3)], ids=["before", "first", "third"]
)
def test_tokens_received_before_leaving_are_charged(
    in_house: Any, stream: bool, after_s: float, charged: int
) -> None:
    """G5, R7, row 01"""

    async def scenario(house: House) -> None:
        house.scripted.default = tokens(50, ttft_s=1.0, gap_s=0.1)
        await leaves_after(house, after_s, stream=stream)
        attempt = house.scripted.attempts[0]
        assert attempt.closed_early
        assert attempt.left_at_s == pytest.approx(attempt.started_at_s + after_s)
        record = house.records[0]
        assert (record.outcome, record.reason) == (Outcome.ABORTED, "client_gone")
        assert record.completion_tokens == charged
        assert house.leftovers == {}

    in_house(scenario)


def test_caller_that_leaves_the_queue_is_never_dispatched(in_house: Any) -> None:
    """G5, row 03"""

    async def scenario(house: House) -> None:
        house.scripted.default = tokens(10, gap_s=1.0)
        async with asyncio.TaskGroup() as callers:
            callers.create_task(house.call(chat(stream=True)))
            callers.create_task(leaves_after(house, 2.0, stream=True))
        assert len(house.scripted.attempts) == 1
        assert {record.outcome for record in house.records} == {
            Outcome.COMPLETED,
            Outcome.EVICTED,
        }
        assert house.leftovers == {}

    in_house(scenario, replicas=ONE_SLOT)


def test_hundred_callers_that_leave_the_queue_owe_and_hold_nothing(in_house: Any) -> None:
    """Row 03: at once; one permit each of a tenant that has a hundred and one."""

    async def scenario(house: House) -> None:
        house.scripted.default = tokens(2, gap_s=100.0)
        async with asyncio.TaskGroup() as callers:
            callers.create_task(house.call(chat(stream=True)))
            await asyncio.sleep(1.0)
            for _ in range(100):
                callers.create_task(leaves_after(house, 2.0, stream=True))
            await asyncio.sleep(2.0)
            assert house.leftovers == {"running": 101, "pool queued": 100} | ONE_RUNS
            await asyncio.sleep(0.001)
            assert house.leftovers == {"running": 1} | ONE_RUNS
            (state,) = await house.store.peek((demand("concurrent", 1, 101),))
            assert state.held == 1
        assert len(house.scripted.attempts) == 1
        gone = [each for each in house.records if each.outcome is Outcome.EVICTED]
        assert len(gone) == 100
        assert sum(each.charge_microcredits for each in gone) == 0

    payer = tenant(limits=(limit("concurrent", 101),))
    in_house(scenario, replicas=ONE_SLOT, tenants=(payer,))


def test_caller_that_leaves_before_headers_owes_nothing(in_house: Any) -> None:
    async def scenario(house: House) -> None:
        house.scripted.default = hang_before_headers()
        await leaves_after(house, 3.0)
        assert house.records[0].prompt_tokens == 0
        assert house.leftovers == {}

    in_house(scenario)


def test_thousand_calls_left_at_random_phases_leave_nothing_behind(in_house: Any) -> None:
    """R5, row 20"""

    async def scenario(house: House) -> None:
        rng = random.Random(5)
        house.scripted.default = lambda target, body: tokens(
            rng.randrange(1, 30), ttft_s=rng.random(), gap_s=0.02
        )

        async def caller() -> None:
            await asyncio.sleep(rng.random() * 20)
            if rng.random() < 0.5:
                await leaves_after(house, rng.random() * 2, stream=rng.random() < 0.5)
            else:
                await house.call(chat(stream=rng.random() < 0.5))

        async with asyncio.TaskGroup() as callers:
            for _ in range(1000):
                callers.create_task(caller())
        assert len(house.records) == 1000
        assert house.leftovers == {}

    in_house(scenario)
