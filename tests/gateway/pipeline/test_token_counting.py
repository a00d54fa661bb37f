"""``messages/count_tokens`` and ``responses/input_tokens``: asked of a replica, else estimated; one
request, no tokens.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from gateway.pipeline.token_counting import MOST_AT_ONCE
from tests.fakes.data_plane import MODEL, POOL, Answer, House, limit, replica, tenant
from tests.fakes.message_scripts import message
from tests.fakes.scripts import Hang, Script, Send

PATH = "/v1/messages/count_tokens"
JSON = (("Content-Type", "application/json"),)
COUNTED = Script((Send(b'{"input_tokens":17,"vendor":1}'),), headers=JSON)


async def count(house: House, content: str = "hello " * 50, **fields: Any) -> Answer:
    headers = fields.pop("headers", None)
    body = {"model": MODEL, "messages": [{"role": "user", "content": content}], **fields}
    return await house.call(body, path=PATH, headers=headers)


def says(house: House, script: Script, *slugs: str) -> None:
    for slug in slugs or ("r1", "r2"):
        house.scripted.routes[slug, PATH] = script


def asked(house: House) -> list[str]:
    return [slug for slug, path in house.scripted.gets if path == PATH]


def run(in_house: Any, scenario: Any, **options: Any) -> None:
    async def prepared(house: House) -> None:
        pool = replace(house.snapshot.pools[POOL], endpoints=frozenset({"messages"}))
        house.change(pools={POOL: pool})
        house.scripted.default = message()
        await asyncio.sleep(0.1)  # until the probes have answered
        await scenario(house)
        await asyncio.sleep(0)
        assert house.leftovers == {}

    in_house(prepared, **options)


INPUT_TOKENS = "/v1/responses/input_tokens"


def test_input_tokens_of_responses_are_counted_the_same_way(in_house: Any) -> None:
    async def scenario(house: House) -> None:
        pool = replace(house.snapshot.pools[POOL], endpoints=frozenset({"responses"}))
        house.change(pools={POOL: pool})
        for slug in ("r1", "r2"):
            house.scripted.routes[slug, INPUT_TOKENS] = COUNTED
        asked_for: dict[str, Any] = {"model": MODEL, "input": "hello " * 50, "instructions": "x"}
        answer = await house.call(asked_for, path=INPUT_TOKENS)
        assert answer.json() == {"object": "response.input_tokens", "input_tokens": 17}
        assert answer.headers["x-fairway-replica"] in ("r1", "r2")
        house.scripted.routes.clear()
        estimate = await house.call(asked_for, path=INPUT_TOKENS)
        assert 50 <= estimate.json()["input_tokens"] <= 150
        assert "x-fairway-replica" not in estimate.headers
        wrong: dict[str, Any] = {"previous_response_id": "r", "input": [], "conversation": "c"}
        for name, value in wrong.items():
            refused = await house.call(asked_for | {name: value}, path=INPUT_TOKENS)
            assert (refused.status, refused.json()["error"]["param"]) == (400, name)
        assert house.scripted.attempts == []
        assert (await count(house)).status == 404

    run(in_house, scenario)


def test_a_replica_counts_and_nothing_is_generated(in_house: Any) -> None:
    async def scenario(house: House) -> None:
        says(house, COUNTED)
        answer = await count(house)
        assert (answer.status, answer.json()) == (200, {"input_tokens": 17})
        assert answer.headers["x-fairway-replica"] in ("r1", "r2")
        assert answer.headers["request-id"]
        assert house.scripted.attempts == []
        record = house.records[0]
        assert (record.endpoint, record.outcome) == ("messages/count_tokens", "completed")
        assert (record.prompt_tokens, record.completion_tokens, record.charge_microcredits) == (
            0,
            0,
            0,
        )

    run(in_house, scenario)


SILENT = {
    "lacks the path": Script(status=404, headers=JSON),
    "fails": Script(status=500, headers=JSON),
    "is not reachable": Script(refused=True),
    "does not answer": Script((Hang(),)),
    "says something else": Script((Send(b'{"tokens":5}'),), headers=JSON),
    "says nonsense": Script((Send(b"<html>"),), headers=JSON),
}


@pytest.mark.parametrize("script", SILENT.values(), ids=SILENT)
def test_where_no_replica_tells_the_gateway_estimates(in_house: Any, script: Script) -> None:
    async def scenario(house: House) -> None:
        says(house, script)
        answer = await count(house)
        assert answer.status == 200
        assert 50 <= answer.json()["input_tokens"] <= 150
        assert "x-fairway-replica" not in answer.headers
        assert sorted(asked(house)) == ["r1", "r2"]

    run(in_house, scenario)


def test_a_flood_of_questions_does_not_reach_the_replicas(in_house: Any) -> None:
    async def scenario(house: House) -> None:
        says(house, COUNTED.later(0.5))
        answers = await asyncio.gather(*(count(house) for _ in range(200)))
        assert {answer.status for answer in answers} == {200}
        assert len(asked(house)) == MOST_AT_ONCE
        assert (await count(house)).json() == {"input_tokens": 17}

    run(in_house, scenario)


def test_another_replica_is_asked_where_one_does_not_tell(in_house: Any) -> None:
    async def scenario(house: House) -> None:
        says(house, Script(status=500, headers=JSON), "r1")
        says(house, COUNTED, "r2")
        for _ in range(6):
            assert (await count(house)).headers["x-fairway-replica"] == "r2"

    run(in_house, scenario)


def test_kinds_that_cannot_count_are_not_asked(in_house: Any) -> None:
    async def scenario(house: House) -> None:
        says(house, COUNTED)
        assert "x-fairway-replica" not in (await count(house)).headers
        assert asked(house) == []

    run(in_house, scenario, replicas=(replica("r1", kind="sglang"), replica("r2", kind="openai")))


def test_prompt_is_shown_only_to_replicas_that_may_run_it(in_house: Any) -> None:
    async def scenario(house: House) -> None:
        says(house, COUNTED)
        for _ in range(5):
            await count(house)
        assert set(asked(house)) == {"r2"}

    others = replica("r1", tenants=frozenset({"others"}))
    run(in_house, scenario, replicas=(others, replica("r2")))


def test_refusal_of_the_request_itself_is_told(in_house: Any) -> None:
    words = b'{"error":{"code":400,"message":"image input is not supported","type":"x"}}'

    async def scenario(house: House) -> None:
        says(house, Script((Send(words),), status=400, headers=JSON))
        answer = await count(house)
        assert answer.status == 400
        assert answer.json()["error"]["message"] == "image input is not supported"

    run(in_house, scenario)


def test_it_costs_one_request_and_no_tokens(in_house: Any) -> None:
    limits = (limit("rpm", 3), limit("tpm", 10), limit("day", 10), limit("concurrent", 1))

    async def scenario(house: House) -> None:
        says(house, COUNTED)
        answers = [await count(house) for _ in range(4)]
        assert [answer.status for answer in answers] == [200, 200, 200, 429]
        left = [each.headers["anthropic-ratelimit-requests-remaining"] for each in answers[:3]]
        assert left == ["2", "1", "0"]
        refused = answers[3]
        assert refused.json()["error"]["type"] == "rate_limit_error"
        assert int(refused.headers["retry-after"]) >= 1
        assert refused.headers["x-fairway-reason"] == "requests_per_minute"

    run(in_house, scenario, tenants=(tenant(limits=limits),))


def test_errors_have_the_shape_of_the_api(in_house: Any) -> None:
    async def scenario(house: House) -> None:
        refusals = {
            401: await count(house, headers={"authorization": "Bearer x"}),
            404: await count(house, model="nothing"),
            400: await count(house, messages=[]),
            405: await house.call(path=PATH, method="GET"),
        }
        assert [answer.status for answer in refusals.values()] == list(refusals)
        assert {answer.json()["type"] for answer in refusals.values()} == {"error"}
        assert asked(house) == []

    run(in_house, scenario)


def test_pool_that_does_not_serve_messages_does_not_count_them(in_house: Any) -> None:
    async def scenario(house: House) -> None:
        answer = await count(house)
        assert answer.status == 404
        assert answer.headers["x-fairway-reason"] == "endpoint_not_served"

    in_house(scenario)
