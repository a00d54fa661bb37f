"""Calls of the Responses API against limits, replicas and callers that leave."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from gateway.core.reasons import Reason
from gateway.pipeline.flow import Lease
from tests.fakes.data_plane import MODEL, POOL, House, limit, tenant
from tests.fakes.scripts import Hang, Wait
from tests.gateway.pipeline.test_responses import PATH, respond, run, said
from tests.wire.responses.streams import WHOLE


def test_limits_hold_as_in_chat(in_house: Any) -> None:
    """G1"""

    async def scenario(house: House) -> None:
        first = await respond(house, stream=True, max_output_tokens=60)
        assert first.status == 200
        refused = await respond(house, stream=True, max_output_tokens=90)
        assert (refused.status, refused.json()["error"]["code"]) == (429, "tokens_per_minute")
        assert set(refused.json()["error"]) == {"message", "type", "param", "code"}

    limited = tenant(limits=(limit("tpm", 95),))
    run(in_house, scenario, tenants=[limited])


def test_a_conversation_that_goes_on_finds_its_replica(in_house: Any) -> None:
    async def scenario(house: House) -> None:
        pool = replace(house.snapshot.pools[POOL], routing="bounded")
        house.change(pools={POOL: pool})
        talk = [{"role": "user", "content": "a long story " * 200}]
        seen = set()
        for turn in range(5):
            answer = await respond(house, talk, instructions="be kind " * 100)
            seen.add(answer.headers["x-fairway-replica"])
            talk += [
                {"type": "message", "role": "assistant", "content": f"answer {turn}"},
                {"role": "user", "content": f"question {turn}"},
            ]
        assert len(seen) == 1
        assert house.records[-1].predicted_cached_tokens > 0

    run(in_house, scenario)


def test_a_caller_that_leaves_pays_for_what_it_got(in_house: Any) -> None:
    async def scenario(house: House) -> None:
        leave = asyncio.Event()
        body = {"model": MODEL, "input": "x", "stream": True}
        call = asyncio.create_task(house.call(body, path=PATH, leave=leave))
        await asyncio.sleep(1.0)
        leave.set()
        await call
        (record,) = house.records
        assert (record.outcome, record.reason) == ("aborted", Reason.CLIENT_GONE)
        assert (record.completion_tokens, record.estimated) == (2, True)
        assert house.scripted.attempts[0].closed_early

    run(in_house, scenario, said(*WHOLE[:6], Hang()))


def test_what_acknowledges_a_call_does_not_say_that_it_runs(
    in_house: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """vLLM sends ``response.created`` also for a call that waits in its own queue."""
    started: list[float] = []

    async def scenario(house: House) -> None:
        began_s = house.clock.monotonic()
        took = house.clock.monotonic
        monkeypatch.setattr(Lease, "first_event", lambda lease: started.append(took() - began_s))
        await respond(house, stream=True)
        assert started == [pytest.approx(5.0)]

    acknowledged, rest = WHOLE[:2], WHOLE[2:]
    run(in_house, scenario, said(*acknowledged, Wait(5.0), *rest))


def test_a_cache_key_leads_to_its_replica_though_another_has_less_to_do(in_house: Any) -> None:
    async def scenario(house: House) -> None:
        pool = replace(house.snapshot.pools[POOL], routing="bounded")
        house.change(pools={POOL: pool})

        async def served_by(number: int, **fields: Any) -> str:
            answer = await respond(house, f"{number} " * 400, **fields)
            return answer.headers["x-fairway-replica"]

        leave = asyncio.Event()
        body = {"model": MODEL, "input": "0 " * 400, "stream": True, "prompt_cache_key": "k"}
        house.scripted.default = said(*WHOLE[:6], Hang())
        busy = asyncio.create_task(house.call(body, path=PATH, leave=leave))
        await asyncio.sleep(1.0)
        holder = house.scripted.attempts[0].slug
        house.scripted.default = said(*WHOLE)
        assert await served_by(1) != holder
        assert await served_by(2, prompt_cache_key="k") == holder
        assert await served_by(3, prompt_cache_key="other") != holder
        leave.set()
        await busy

    run(in_house, scenario)
