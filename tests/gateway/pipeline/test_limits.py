"""Quota through the whole data plane: who may spend, what is charged, what a refusal says."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.core.priority import PriorityClass
from tests.fakes import scripts
from tests.fakes.data_plane import House, chat, limit, tenant


def test_streams_and_completions_hit_the_token_limit(in_house: Any) -> None:
    """G1"""

    async def scenario(house: House) -> None:
        house.scripted.default = scripts.tokens(40, prompt=20)
        statuses = [(await house.call(chat(stream=True, max_tokens=40))).status for _ in range(5)]
        assert statuses == [200, 200, 429, 429, 429]  # 60 used; 43 more fit, and no third 43

    in_house(scenario, tenants=(tenant(limits=(limit("tpm", 110),)),))


def test_refusal_says_when_to_return_and_remaining_falls(in_house: Any) -> None:
    """G23, I10"""

    async def scenario(house: House) -> None:
        first = await house.call(chat(max_tokens=10))
        second = await house.call(chat(max_tokens=10))
        third = await house.call(chat(max_tokens=10))
        left = [int(a.headers["x-ratelimit-remaining-requests"]) for a in (first, second)]
        assert left == [1, 0]
        assert third.status == 429
        error = third.json()["error"]
        assert error["code"] == "requests_per_minute"
        wait_ms = int(third.headers["retry-after-ms"])
        assert 30_000 <= wait_ms <= 36_000
        assert int(third.headers["retry-after"]) == -(-wait_ms // 1000)
        assert third.headers["x-ratelimit-limit-requests"] == "2"
        assert third.headers["x-ratelimit-remaining-requests"] == "0"
        assert third.headers["x-ratelimit-reset-requests"] == "30s"

    in_house(scenario, tenants=(tenant(limits=(limit("rpm", 2),)),))


@pytest.mark.parametrize(
    "fields",
    [{"max_tokens": 101}, {"max_tokens": 1, "max_completion_tokens": 10_000}],
    ids=["own cap", "the larger of two caps"],
)
def test_call_that_can_never_fit_is_told_so(in_house: Any, fields: dict[str, Any]) -> None:
    """G3"""

    async def scenario(house: House) -> None:
        answer = await house.call(chat("hi", **fields))
        assert (answer.status, answer.json()["error"]["code"]) == (400, "cannot_fit")

    in_house(scenario, tenants=(tenant(limits=(limit("tpm", 100),)),))


def test_call_without_a_cap_fits_a_small_bucket(in_house: Any) -> None:
    """G3"""

    async def scenario(house: House) -> None:
        assert (await house.call(chat())).status == 200

    in_house(scenario, tenants=(tenant(limits=(limit("tpm", 100),)),))


def test_burst_at_a_bucket_for_fifty_admits_fifty(in_house: Any) -> None:
    """G2, row 27"""

    async def scenario(house: House) -> None:
        house.scripted.default = scripts.tokens(1, ttft_s=1.0)
        answers = await asyncio.gather(*(house.call(chat()) for _ in range(200)))
        assert sum(answer.status == 200 for answer in answers) == 50

    in_house(scenario, tenants=(tenant(limits=(limit("rpm", 50),)),))


def test_concurrency_is_given_back_however_a_call_ends(in_house: Any) -> None:
    """G4"""

    async def scenario(house: House) -> None:
        house.scripted.default = scripts.tokens(3)
        for bad in (scripts.status(500), scripts.status(400), scripts.cut_after(1)):
            house.scripted.say("r1", bad, bad)
            house.scripted.say("r2", bad, bad)
        await house.call(b"{not json")
        for _ in range(12):
            await house.call(chat(stream=True))
        leave = asyncio.Event()
        house.scripted.default = scripts.tokens(30, gap_s=1.0)
        running = asyncio.create_task(house.call(chat(), leave=leave))
        await asyncio.sleep(2)
        assert (await house.call(chat())).json()["error"]["code"] == "concurrency"
        leave.set()
        await running
        house.scripted.default = scripts.tokens(1)
        assert (await house.call(chat())).status == 200

    in_house(scenario, tenants=(tenant(limits=(limit("concurrent", 1),)),))


def test_credit_for_one_call_lets_one_of_twenty_through(in_house: Any) -> None:
    """G6"""

    async def scenario(house: House) -> None:
        house.scripted.default = scripts.tokens(10, ttft_s=1.0, prompt=10)
        calls = (house.call(chat(max_tokens=10)) for _ in range(20))
        answers = await asyncio.gather(*calls)
        assert sum(answer.status == 200 for answer in answers) == 1
        refused = next(answer for answer in answers if answer.status == 429)
        assert refused.json()["error"]["code"] == "credit_exhausted"

    in_house(scenario, tenants=(tenant(credit_limit_microcredits=40),))


def test_class_is_clamped_never_raised(in_house: Any) -> None:
    """Row 64, G18"""

    async def scenario(house: House) -> None:
        headers = {"x-fairway-priority": "interactive"}
        answer = await house.call(chat(), headers=headers)
        assert answer.headers["x-fairway-class"] == "standard"
        lower = await house.call(chat(service_tier="flex"))
        assert lower.headers["x-fairway-class"] == "batch"
        assert lower.json()["service_tier"] == "flex"
        wrong = await house.call(chat(), headers={"x-fairway-priority": "urgent"})
        assert wrong.status == 400

    in_house(scenario, tenants=(tenant(highest_class=PriorityClass.STANDARD),))


def test_suspended_tenant_is_refused_and_its_streams_are_cut(in_house: Any) -> None:
    """I11, S06"""

    async def scenario(house: House) -> None:
        house.scripted.default = scripts.tokens(100, gap_s=1.0)
        running = asyncio.create_task(house.call(chat(stream=True)))
        await asyncio.sleep(3.5)
        house.change_tenant("acme", suspended=True)
        answer = await running
        assert answer.events()[-1]["error"]["code"] == "suspended"
        assert (await house.call(chat())).status == 403
        assert house.records[0].completion_tokens == 4
        assert house.leftovers == {}

    in_house(scenario)


def test_lowered_limit_holds_at_once(in_house: Any) -> None:
    async def scenario(house: House) -> None:
        for _ in range(5):
            assert (await house.call(chat())).status == 200
        house.change_tenant("acme", limits=(limit("rpm", 3),))
        assert (await house.call(chat())).status == 429

    in_house(scenario, tenants=(tenant(limits=(limit("rpm", 100),)),))
