"""Where may a call run, and what is told of where it ran? Through the whole data plane."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from gateway.core.clock import SystemClock
from gateway.snapshot.values import AliasValue, Target
from tests.fakes.data_plane import MODEL, POOL, Answer, House, chat, replica, tenant
from tests.fakes.scripts import hang_after, tokens

LONG = "word " * 1_000
MakeHouse = Callable[..., Awaitable[House]]


@pytest_asyncio.fixture
async def house(tmp_path: Path) -> AsyncIterator[MakeHouse]:
    """Scripted replicas answer at once, so real time does as well as virtual."""
    made: list[House] = []

    async def make(**options: Any) -> House:
        it = House(SystemClock(), tmp_path, **options)
        it.scripted.default = tokens(3, ttft_s=0, gap_s=0)
        made.append(await it.open())
        uses(it, routing="bounded")
        return it

    yield make
    for it in made:
        await it.close()


def uses(house: House, **changes: Any) -> None:
    house.change(pools={POOL: replace(house.snapshot.pools[POOL], **changes)})


async def places(house: House, calls: int = 6, **options: Any) -> set[str]:
    answers = [await house.call(**options) for _ in range(calls)]
    assert {answer.status for answer in answers} == {200}
    return {answer.headers["x-fairway-replica"] for answer in answers}


class TestFilters:
    async def test_a_dedicated_replica_runs_its_tenants_calls_only(self, house: MakeHouse) -> None:
        it = await house(
            tenants=(tenant("acme"), tenant("other")),
            replicas=(replica("own", tenants=frozenset({"acme"})), replica("all")),
        )
        assert await places(it, tenant="other") == {"all"}
        assert await places(it, 20, tenant="acme") == {"own", "all"}

    async def test_a_region_is_where_a_call_runs(self, house: MakeHouse) -> None:
        it = await house(replicas=(replica("a", region="eu"), replica("b", region="us")))
        assert await places(it, headers={"x-fairway-region": "us"}) == {"b"}
        unknown = await it.call(headers={"x-fairway-region": "moon"})
        assert (unknown.status, "moon" in unknown.json()["error"]["message"]) == (400, True)

    async def test_tools_need_a_replica_that_can(self, house: MakeHouse) -> None:
        it = await house(
            replicas=(
                replica("plain", capabilities=frozenset({"vision"})),
                replica("able", capabilities=frozenset({"tools"})),
            )
        )
        tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
        assert await places(it, body=chat(tools=[tool])) == {"able"}

    async def test_lengths_of_prompts_go_to_their_tier(self, house: MakeHouse) -> None:
        it = await house(
            replicas=(
                replica("short", band_to_tokens=500),
                replica("long", band_from_tokens=500),
            )
        )
        assert await places(it) == {"short"}
        assert await places(it, body=chat(LONG)) == {"long"}

    async def test_a_prompt_goes_where_it_fits_and_is_never_refused_by_an_estimate(
        self, house: MakeHouse
    ) -> None:
        it = await house(
            replicas=(replica("small", context_tokens=600), replica("large", context_tokens=900))
        )
        assert await places(it, body=chat("word " * 500)) == {"large"}
        assert await places(it, body=chat(LONG)) == {"large"}


class TestTargets:
    def alias(self, house: House, *others: Target, weight: int = 1) -> None:
        pool = house.snapshot.pools[POOL]
        second = replace(pool, slug="second", replicas=(replica("s1", pool="second"),))
        alias = AliasValue(MODEL, POOL, "upstream-model", weight, others)
        house.change(pools={POOL: pool, "second": second}, aliases={MODEL: alias})

    async def test_calls_are_divided_by_weight(self, house: MakeHouse) -> None:
        it = await house()
        self.alias(it, Target("second", "m2", weight=3))
        answers = [await it.call(chat(f"question {number}")) for number in range(80)]
        second = sum(answer.headers["x-fairway-replica"] == "s1" for answer in answers)
        assert 45 <= second <= 72

    async def test_the_same_beginning_leads_to_the_same_pool(self, house: MakeHouse) -> None:
        it = await house()
        self.alias(it, Target("second", "m2", weight=1))
        assert len(await places(it, body=chat("the same"))) in (1, 2)
        pools = {record.pool for record in it.records}
        assert len(pools) == 1

    async def test_a_fallback_is_used_only_when_nothing_else_can_serve(
        self, house: MakeHouse
    ) -> None:
        it = await house(replicas=(replica("r1"),))
        self.alias(it, Target("second", "m2", fallback=True))
        assert await places(it) == {"r1"}
        disabled = (replica("r1", state="disabled"),)
        pools = it.snapshot.pools
        it.change(pools={**pools, POOL: replace(pools[POOL], replicas=disabled)})
        assert await places(it) == {"s1"}


def asked(number: int, rules: str = "", marked: bool = False, **fields: Any) -> dict[str, Any]:
    """Prompts that begin alike for less than a block, and are long."""
    mark = {"cache_control": {"type": "ephemeral"}} if marked else {}
    system = {"role": "system", "content": [{"type": "text", "text": rules or "Be kind.", **mark}]}
    question = {"role": "user", "content": f"{number} " * 400}
    return {"model": MODEL, "messages": [system, question], **fields}


class TestHints:
    @pytest.mark.parametrize(
        ("same", "other"),
        [
            ({"prompt_cache_key": "k"}, {"prompt_cache_key": "l"}),
            ({"rules": "Rules.", "marked": True}, {"rules": "Others.", "marked": True}),
        ],
        ids=["prompt_cache_key", "cache_control"],
    )
    async def test_a_hint_leads_to_its_replica_though_another_has_less_to_do(
        self, house: MakeHouse, same: dict[str, Any], other: dict[str, Any]
    ) -> None:
        it, leave = await house(), asyncio.Event()
        it.scripted.default = hang_after(2)
        busy = asyncio.create_task(it.call(asked(0, stream=True, **same), leave=leave))
        while not it.scripted.attempts:
            await asyncio.sleep(0)
        holder = it.scripted.attempts[0].slug
        it.scripted.default = tokens(3)
        assert holder not in await places(it, 1, body=asked(1))
        assert await places(it, 1, body=asked(2, **same)) == {holder}
        assert holder not in await places(it, 1, body=asked(3, **other))
        leave.set()
        await busy


class TestTold:
    async def test_a_prompt_that_is_held_is_told_before_usage_is_known(
        self, house: MakeHouse
    ) -> None:
        it = await house(replicas=(replica("r1"),))
        body = chat(LONG, stream=True)
        first, second = await it.call(body), await it.call(body)
        assert float(first.headers["x-fairway-prefix-hit"]) == 0
        assert float(second.headers["x-fairway-prefix-hit"]) > 0.9
        assert [record.predicted_cached_tokens > 900 for record in it.records] == [False, True]

    async def test_prompts_of_tenants_are_strangers_to_each_other(self, house: MakeHouse) -> None:
        """R33, S14: what one tenant sent warms nothing for another, and a caller's own salt is
        overwritten."""
        it = await house(tenants=(tenant("acme"), tenant("other")), replicas=(replica("r1"),))
        for slug in ("acme", "other"):
            await it.call(chat(LONG, cache_salt="mine"), tenant=slug)
        assert [record.predicted_cached_tokens for record in it.records] == [0, 0]
        salts = [json.loads(each.body)["cache_salt"] for each in it.scripted.attempts]
        assert len(set(salts)) == 2
        assert "mine" not in salts

    async def test_cached_input_costs_what_the_best_replica_would_have_given(
        self, house: MakeHouse
    ) -> None:
        it = await house(replicas=(replica("r1"),))
        await it.call(chat(LONG))
        await it.call(chat(LONG))
        assert it.records[1].charge_microcredits < it.records[0].charge_microcredits

    async def test_what_failed_keeps_its_story(self, house: MakeHouse) -> None:
        it = await house(replicas=(replica("r1", state="disabled"),))
        answer: Answer = await it.call()
        assert answer.status == 503
        assert it.records[0].story is not None


@pytest.mark.parametrize("value", ["yes", "1"])
async def test_a_wish_that_cannot_be_read_is_refused(house: MakeHouse, value: str) -> None:
    it = await house()
    assert (await it.call(headers={"x-fairway-ordered": value})).status == 400
