"""An endpoint without a stream runs through the same ten steps as the others."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from gateway.core.reasons import REASONS, Reason
from tests.fakes import scripts
from tests.fakes.data_plane import MODEL, POOL, Answer, House, limit, replica, tenant
from tests.fakes.scripts import Cut, Hang, Script, Send, Wait, plain

PATH = "/v1/embeddings"
WHOLE = (
    b'{"object":"list","data":[{"object":"embedding","index":0,"embedding":"AAAAPwAAgL8="}],'
    b'"model":"upstream-model","vendor":{"a" : 1.50},'
    b'"usage":{"prompt_tokens":400,"total_tokens":400}}'
)
JSON = (("Content-Type", "application/json"),)


def said(*steps: Any) -> Script:
    return Script(steps, headers=JSON)


ANSWER = said(Send(WHOLE[:50]), Wait(0.2), Send(WHOLE[50:]))


async def embed(house: House, given: Any = "hello", **fields: Any) -> Answer:
    return await house.call({"model": MODEL, "input": given, **fields}, path=PATH)


def serves(house: House, *endpoints: str) -> None:
    pool = replace(house.snapshot.pools[POOL], endpoints=frozenset(endpoints))
    house.change(pools={POOL: pool})


def run(in_house: Any, scenario: Any, default: Script = ANSWER, **options: Any) -> None:
    async def prepared(house: House) -> None:
        serves(house, "chat/completions", "embeddings")
        house.scripted.default = default
        await scenario(house)
        await asyncio.sleep(0)
        assert house.leftovers == {}

    in_house(prepared, **options)


def test_the_answer_comes_byte_for_byte(in_house: Any) -> None:
    async def scenario(house: House) -> None:
        answer = await embed(house, encoding_format="base64", service_tier="flex")
        assert (answer.status, answer.body) == (200, WHOLE)
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["content-length"] == str(len(WHOLE))
        assert answer.headers["x-fairway-class"] == "batch"
        attempt = house.scripted.attempts[0]
        assert attempt.path == PATH
        assert attempt.headers["accept"] == "application/json"
        assert "stream" not in json.loads(attempt.body)
        assert json.loads(attempt.body)["model"] == "upstream-model"
        assert not attempt.closed_early

    run(in_house, scenario)


def test_any_cut_gives_the_same_answer(in_house: Any) -> None:
    """G9: every byte offset"""

    async def scenario(house: House) -> None:
        for at in range(1, len(WHOLE)):
            house.scripted.default = said(Send(WHOLE[:at]), Send(WHOLE[at:]))
            assert (await embed(house)).body == WHOLE, at

    run(in_house, scenario)


def test_only_the_prompt_is_metered(in_house: Any) -> None:
    """Price 1 microcredit per token of input."""

    async def scenario(house: House) -> None:
        await embed(house)
        (record,) = house.records
        assert (record.endpoint, record.outcome) == ("embeddings", "completed")
        assert (record.prompt_tokens, record.completion_tokens) == (400, 0)
        assert (record.stream, record.estimated) == (False, False)
        assert record.charge_microcredits == 400
        assert record.ttft_s == pytest.approx(0.2)
        assert record.tpot_s is None

    run(in_house, scenario)


def test_no_output_is_reserved(in_house: Any) -> None:
    """Four bytes are about one token; a chat call would have taken the whole bucket of 20."""

    async def scenario(house: House) -> None:
        house.scripted.default = said(Send(WHOLE.replace(b"400", b"1")))
        for _ in range(3):
            assert (await embed(house, "four")).status == 200
        assert [record.reserved_tokens for record in house.records] == [1, 1, 1]

    limited = tenant(limits=(limit("tpm", 20), limit("day", 1_000), limit("otpm", 50)))
    run(in_house, scenario, tenants=[limited])


def test_what_was_used_is_settled(in_house: Any) -> None:
    async def scenario(house: House) -> None:
        assert (await embed(house)).status == 200
        await asyncio.sleep(0.1)
        refused = await embed(house)
        assert (refused.status, refused.json()["error"]["code"]) == (429, "tokens_per_minute")
        assert float(refused.headers["retry-after"]) > 30

    run(in_house, scenario, tenants=[tenant(limits=(limit("tpm", 100),))])


def test_chat_estimates_do_not_learn_from_it(in_house: Any) -> None:
    async def scenario(house: House) -> None:
        for _ in range(20):
            await embed(house)
        house.scripted.default = scripts.tokens(3)
        await house.call()
        assert house.records[-1].reserved_tokens > 256

    run(in_house, scenario)


def test_a_long_prompt_is_not_held_for_a_prefix(in_house: Any) -> None:
    async def scenario(house: House) -> None:
        for _ in range(3):
            await embed(house, "the same long text " * 400, prompt_cache_key="k")
        assert {record.predicted_cached_tokens for record in house.records} == {0}
        assert {record.charge_microcredits for record in house.records} == {400}

    run(in_house, scenario)


BROKEN: dict[str, Script] = {
    "refused port": scripts.refused(),
    "500": scripts.status(500),
    "503": scripts.status(503),
    "cut before headers": scripts.cut_before_headers(),
    "cut inside": said(Send(WHOLE[:60]), Cut()),
    "ends too early": said(Send(WHOLE[:60])),
    "empty": said(),
    "error in 200": scripts.error_in_200(),
    "an event stream": scripts.tokens(2),
    "a page": scripts.html_error(),
    "too few vectors": said(Send(b'{"data":[],"usage":{"prompt_tokens":1}}')),
}


@pytest.mark.parametrize("script", BROKEN.values(), ids=BROKEN)
def test_a_broken_answer_is_asked_for_elsewhere(in_house: Any, script: Script) -> None:
    async def scenario(house: House) -> None:
        house.scripted.say("r1", script)
        house.scripted.say("r2", script)
        first = await embed(house)
        second = await embed(house)
        answers = {(each.status, each.body) for each in (first, second)}
        assert (200, WHOLE) in answers
        assert len(house.scripted.attempts) > 2

    run(in_house, scenario)


@pytest.mark.parametrize("name", ["500", "cut inside", "ends too early", "an event stream"])
def test_when_every_replica_fails_it_is_one_error_and_costs_nothing(
    in_house: Any, name: str
) -> None:
    async def scenario(house: House) -> None:
        answer = await embed(house)
        assert answer.status == 502
        assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
        (record,) = house.records
        assert (record.outcome, record.charge_microcredits) == ("failed", 0)

    run(in_house, scenario, BROKEN[name])


def test_a_refusal_of_the_replica_is_told(in_house: Any) -> None:
    async def scenario(house: House) -> None:
        answer = await embed(house, "x")
        assert answer.status == 400
        assert answer.json()["error"]["message"] == "The input is too long."
        assert len(house.scripted.attempts) == 1

    body = b'{"error":{"message":"The input is too long.","code":400}}'
    run(in_house, scenario, scripts.status(400, body=body))


def test_a_replica_that_hangs_is_left_in_time(in_house: Any) -> None:
    async def scenario(house: House) -> None:
        house.scripted.say("r1", said(Send(WHOLE[:10]), Hang()))
        house.scripted.say("r2", said(Send(WHOLE[:10]), Hang()))
        hung = asyncio.create_task(embed(house))
        assert (await hung).status in (200, 502, 504)
        assert house.scripted.open_attempts == 0

    run(in_house, scenario)


def test_the_callers_deadline_ends_it(in_house: Any) -> None:
    async def scenario(house: House) -> None:
        answer = await house.call(
            {"model": MODEL, "input": "x"}, path=PATH, headers={"x-fairway-deadline-ms": "100"}
        )
        told = REASONS[Reason.DEADLINE].dispatched_status
        assert (answer.status, answer.json()["error"]["code"]) == (told, "deadline")

    run(in_house, scenario)


def test_a_caller_that_leaves_gives_everything_back(in_house: Any) -> None:
    async def scenario(house: House) -> None:
        leave = asyncio.Event()
        body = {"model": MODEL, "input": "x"}
        call = asyncio.create_task(house.call(body, path=PATH, leave=leave))
        await asyncio.sleep(0.1)
        leave.set()
        await call
        (record,) = house.records
        assert (record.outcome, record.reason) == ("aborted", Reason.CLIENT_GONE)
        assert house.scripted.attempts[0].closed_early

    run(in_house, scenario)


def test_more_calls_than_slots_wait_their_turn(in_house: Any) -> None:
    async def scenario(house: House) -> None:
        answers = await asyncio.gather(*(embed(house) for _ in range(24)))
        assert {answer.status for answer in answers} == {200}
        assert max(float(a.headers["x-fairway-queue-ms"]) for a in answers) >= 300

    run(in_house, scenario)


def test_a_pool_without_the_endpoint_says_so(in_house: Any) -> None:
    async def scenario(house: House) -> None:
        answer = await embed(house)
        assert (answer.status, answer.json()["error"]["code"]) == (404, "endpoint_not_served")
        assert house.scripted.attempts == []

    in_house(scenario)


def test_a_bad_body_is_refused_with_its_field(in_house: Any) -> None:
    async def scenario(house: House) -> None:
        answer = await embed(house, [])
        assert (answer.status, answer.json()["error"]["param"]) == (400, "input")
        got = await house.call(path=PATH, method="GET")
        assert got.status == 405

    run(in_house, scenario)


def test_an_answer_that_outgrows_the_gateway_is_paid_for_by_its_prompt(in_house: Any) -> None:
    """Its refund would be credit, before everybody else."""

    async def scenario(house: House) -> None:
        answer = await embed(house, "the sea " * 875)
        assert answer.status == 502
        (record,) = house.records
        assert (record.prompt_tokens, record.completion_tokens) == (2_000, 0)
        assert record.charge_microcredits == 2_000
        assert len(house.scripted.attempts) == 1

    run(in_house, scenario, said(*[Send(b"[" * 1_000_000)] * 68))


def test_a_large_answer_is_held_and_given_whole(in_house: Any) -> None:
    vector = json.dumps([0.123456789] * 500).encode()
    data = b",".join(b'{"embedding":%s}' % vector for _ in range(100))
    large = b'{"data":[%s],"usage":{"prompt_tokens":1}}' % data

    async def scenario(house: House) -> None:
        answer = await embed(house, ["x"] * 100)
        assert answer.body == large

    run(in_house, scenario, plain(large, "application/json"))


@pytest.mark.parametrize(
    ("given", "served_by"),
    [
        (["the sea " * 50] * 100, {"short", "long"}),
        (["the sea " * 50, "the sea " * 2_000], {"long"}),
        ("the sea " * 2_000, {"long"}),
        ([[7] * 100] * 100, {"short", "long"}),
        ([7] * 5_000, {"long"}),
    ],
    ids=["many", "one of them long", "long", "many in tokens", "long in tokens"],
)
def test_each_input_must_fit_a_context_not_all_of_them(
    in_house: Any, given: Any, served_by: set[str]
) -> None:
    async def scenario(house: House) -> None:
        one = isinstance(given, str) or isinstance(given[0], int)
        vectors = [{"embedding": [1]}] * (1 if one else len(given))
        whole = json.dumps({"data": vectors, "usage": {"prompt_tokens": 1}}).encode()
        house.scripted.default = said(Wait(0.1), Send(whole))
        answers = await asyncio.gather(*(embed(house, given) for _ in range(4)))
        assert {answer.status for answer in answers} == {200}
        assert {answer.headers["x-fairway-replica"] for answer in answers} == served_by

    replicas = [replica("short", context_tokens=1_000), replica("long", context_tokens=8_000)]
    run(in_house, scenario, replicas=replicas)
