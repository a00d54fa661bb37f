"""The Anthropic dialect through the whole data plane, in virtual time."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from gateway.core.reasons import Reason
from tests.fakes import message_scripts as scripts
from tests.fakes.data_plane import MODEL, POOL, Answer, House, limit, replica, tenant
from tests.fakes.message_scripts import PATH, begun, event, message, opened, said, tool_call
from tests.fakes.scripts import Cut, Hang, Script, Send, Wait

ENDPOINTS = frozenset({"chat/completions", "messages"})


def body(content: Any = "hello", **fields: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": content}]
    return {"model": MODEL, "max_tokens": 100, "messages": messages, **fields}


async def ask(house: House, content: Any = "hello", **fields: Any) -> Answer:
    options = {name: fields.pop(name) for name in ("headers", "leave") if name in fields}
    return await house.call(body(content, **fields), path=PATH, **options)


def run(in_house: Any, scenario: Any, default: Script | None = None, **options: Any) -> None:
    async def prepared(house: House) -> None:
        pool = replace(house.snapshot.pools[POOL], endpoints=ENDPOINTS)
        house.change(pools={POOL: pool})
        house.scripted.default = default or message()
        await scenario(house)
        await asyncio.sleep(0)
        assert house.leftovers == {}

    in_house(prepared, **options)


def sent(script: Script) -> bytes:
    return b"".join(step.data for step in script.steps if isinstance(step, Send))


def test_stream_is_relayed_byte_for_byte_and_recorded(in_house: Any) -> None:
    script = message(5, ttft_s=0.2, gap_s=0.05, prompt=20, cached=8)

    async def scenario(house: House) -> None:
        answer = await ask(house, stream=True)
        assert answer.status == 200
        assert answer.body == sent(script)
        assert answer.headers["content-type"].startswith("text/event-stream")
        record = house.records[0]
        assert (record.outcome, record.endpoint) == ("completed", "messages")
        assert (record.prompt_tokens, record.cached_tokens, record.completion_tokens) == (20, 8, 5)
        assert record.ttft_s == pytest.approx(0.2)
        assert record.tpot_s == pytest.approx(0.05)
        attempt = house.scripted.attempts[0]
        assert attempt.path == PATH
        assert json.loads(attempt.body) == {
            **body(),
            "model": "upstream-model",
            "stream": True,
            "cache_salt": json.loads(attempt.body)["cache_salt"],
            "priority": 1,
        }

    run(in_house, scenario, script)


def test_answer_without_stream_is_one_message(in_house: Any) -> None:
    async def scenario(house: House) -> None:
        answer = await ask(house, tools=[{"name": "weather", "input_schema": {"type": "object"}}])
        told = answer.json()
        assert [block["type"] for block in told["content"]] == ["text", "tool_use"]
        assert told["content"][1]["input"] == {"place": "Graz"}
        assert (told["stop_reason"], told["usage"]["output_tokens"]) == ("tool_use", 9)
        assert "service_tier" not in told["usage"]
        assert house.records[0].completion_tokens == 9

    run(in_house, scenario, tool_call())


def test_first_token_may_be_thinking_first_visible_may_not(in_house: Any) -> None:
    thought = {"type": "thinking_delta", "thinking": "hm"}
    steps = (
        Send(begun() + opened(0, "thinking", thinking="")),
        Wait(0.5),
        Send(event("content_block_delta", index=0, delta=thought)),
        Wait(1.0),
        Send(scripts.shut() + opened(1) + said("x", 1) + scripts.shut(1)),
        Send(scripts.ended(2) + scripts.STOP),
    )

    async def scenario(house: House) -> None:
        await ask(house, stream=True)
        record = house.records[0]
        assert (record.ttft_s, record.first_visible_s) == (0.5, 1.5)

    run(in_house, scenario, Script(steps))


def test_headers_are_those_of_the_api(in_house: Any) -> None:
    async def scenario(house: House) -> None:
        answers = [await ask(house, stream=stream) for stream in (False, True)]
        for answer in answers:
            assert answer.headers["request-id"] == answer.headers["x-fairway-call-id"]
            assert answer.headers["anthropic-ratelimit-requests-limit"] == "30"
            assert answer.headers["anthropic-ratelimit-tokens-reset"].endswith("Z")
            assert not [name for name in answer.headers if name.startswith("x-ratelimit")]
        left = [int(answer.headers["anthropic-ratelimit-requests-remaining"]) for answer in answers]
        assert left == [29, 28]

    run(in_house, scenario, tenants=(tenant(limits=(limit("rpm", 30), limit("tpm", 9_000))),))


@pytest.mark.parametrize(
    ("headers", "tier", "klass", "told"),
    [
        ({}, "auto", "standard", "standard"),
        ({}, "standard_only", "standard", "standard"),
        ({"x-fairway-priority": "interactive"}, "auto", "interactive", "priority"),
        ({"x-fairway-priority": "batch"}, "auto", "batch", "batch"),
    ],
)
def test_service_tier_is_taken_and_told(
    in_house: Any, headers: dict[str, str], tier: str, klass: str, told: str
) -> None:
    async def scenario(house: House) -> None:
        answer = await ask(house, service_tier=tier, headers=headers)
        assert answer.headers["x-fairway-class"] == klass
        assert answer.json()["usage"]["service_tier"] == told

    run(in_house, scenario)


def test_errors_have_the_shape_of_the_api_also_before_anything_is_known(in_house: Any) -> None:
    async def scenario(house: House) -> None:
        refusals = {
            (401, "authentication_error"): await ask(house, headers={"authorization": "Bearer x"}),
            (404, "not_found_error"): await ask(house, model="nothing"),
            (400, "invalid_request_error"): await ask(house, temperature=2),
            (405, "invalid_request_error"): await house.call(path=PATH, method="GET"),
        }
        for (status, kind), answer in refusals.items():
            told = answer.json()
            assert (answer.status, told["type"], told["error"]["type"]) == (status, "error", kind)
            assert told["request_id"] == answer.headers["request-id"]
            assert told["error"]["details"]["error_code"] == answer.headers["x-fairway-reason"]

    run(in_house, scenario)


def test_unknown_paths_and_models_speak_the_dialect_of_their_client(in_house: Any) -> None:
    version = {"anthropic-version": "2023-06-01"}

    async def scenario(house: House) -> None:
        batches = await house.call(path="/v1/messages/batches")
        model = await house.call(path="/v1/models/x", method="GET", headers=version)
        plain = await house.call(path="/v1/models/x", method="GET")
        assert (batches.status, batches.json()["type"]) == (404, "error")
        assert (model.status, model.json()["error"]["type"]) == (404, "not_found_error")
        assert plain.json()["error"]["code"] == "model_not_found"

    run(in_house, scenario)


def test_pool_without_the_endpoint_says_so(in_house: Any) -> None:
    """No translation between dialects."""

    async def scenario(house: House) -> None:
        answer = await ask(house)
        assert (answer.status, answer.json()["error"]["type"]) == (404, "not_found_error")
        assert answer.headers["x-fairway-reason"] == "endpoint_not_served"
        assert house.scripted.attempts == []

    in_house(scenario)


def test_replicas_that_cannot_serve_it_are_not_asked_where_others_can(in_house: Any) -> None:
    async def scenario(house: House) -> None:
        answers = await asyncio.gather(*(ask(house) for _ in range(6)))
        assert {answer.headers["x-fairway-replica"] for answer in answers} == {"r2"}

    run(in_house, scenario, replicas=(replica("r1", kind="sglang"), replica("r2")))


def test_servers_of_unknown_abilities_are_asked_where_their_pool_says_so(in_house: Any) -> None:
    async def scenario(house: House) -> None:
        assert (await ask(house)).status == 200

    run(in_house, scenario, replicas=(replica("r1", kind="openai"),))


def test_own_request_id_is_told_in_header_and_body(in_house: Any) -> None:
    async def scenario(house: House) -> None:
        answer = await ask(house, model="nothing", headers={"x-request-id": "mine-1"})
        assert answer.headers["request-id"] == answer.json()["request_id"] == "mine-1"

    run(in_house, scenario)


def test_key_may_come_as_x_api_key(in_house: Any) -> None:
    async def scenario(house: House) -> None:
        headers = {"authorization": "", "x-api-key": house.secrets["acme"]}
        assert (await ask(house, headers=headers)).status == 200

    run(in_house, scenario)


def test_refused_for_a_limit_says_when_to_return(in_house: Any) -> None:
    """G1, G23"""

    async def scenario(house: House) -> None:
        statuses = [(await ask(house, stream=True, max_tokens=40)).status for _ in range(2)]
        answer = await ask(house, stream=True, max_tokens=40)
        assert [*statuses, answer.status] == [200, 200, 429]
        assert answer.json()["error"]["type"] == "rate_limit_error"
        assert int(answer.headers["retry-after"]) >= 1
        assert answer.headers["x-fairway-reason"] == "tokens_per_minute"
        assert answer.headers["anthropic-ratelimit-tokens-limit"] == "110"
        assert 0 <= int(answer.headers["anthropic-ratelimit-tokens-remaining"]) < 40
        assert answer.headers["anthropic-ratelimit-tokens-reset"].endswith("Z")

    run(in_house, scenario, message(40, prompt=20), tenants=(tenant(limits=(limit("tpm", 110),)),))


def test_no_replica_is_an_overload(in_house: Any) -> None:
    async def scenario(house: House) -> None:
        house.change(pools={POOL: replace(house.snapshot.pools[POOL], replicas=())})
        answer = await ask(house)
        assert (answer.status, answer.json()["error"]["type"]) == (529, "overloaded_error")
        assert int(answer.headers["retry-after"]) >= 1
        assert house.records[0].status == 529

    run(in_house, scenario)


TRUNCATED = {
    "cut": (Cut(),),
    "clean end": (),
    "end without a reason": (Send(scripts.STOP),),
    "garbage": (Send(b"event: x\ndata: {\n\n"),),
    "error event": (Send(event("error", error={"type": "api_error", "message": "boom"})),),
    "silence": (Hang(),),
}


@pytest.mark.parametrize("end", TRUNCATED.values(), ids=TRUNCATED)
def test_broken_stream_ends_with_an_error_event_and_nothing_after_it(
    in_house: Any, end: tuple[Any, ...]
) -> None:
    """G12, row 43"""
    script = Script((Send(begun(prompt=20)), Send(opened()), Send(said("t0 ")), *end))

    async def scenario(house: House) -> None:
        answer = await ask(house, stream=True)
        *_, last = answer.body.decode().strip().split("\n\n")
        assert answer.ended
        assert last.startswith("event: error\ndata: ")
        told = json.loads(last.split("data: ", 1)[1])
        assert told["type"] == "error"
        assert told["error"]["type"] in ("api_error", "timeout_error")
        assert told["request_id"] == answer.headers["request-id"]
        assert b"message_stop" not in answer.body
        assert b"boom" not in answer.body
        record = house.records[0]
        assert (record.outcome, record.completion_tokens) == ("failed", 1)
        assert len(record.attempts) == 1

    run(in_house, scenario, script)


@pytest.mark.parametrize(
    "broken",
    [
        Script((Send(begun()), Send(opened()), Cut())),
        Script((Send(begun()), Send(event("error", error={"type": "api_error"})))),
        Script((Send(event("error", error={"type": "overloaded_error"})),)),
        Script(status=529),
    ],
    ids=["cut before content", "error before content", "overloaded", "status 529"],
)
@pytest.mark.parametrize("stream", [True, False])
def test_failure_before_the_first_content_is_tried_elsewhere(
    in_house: Any, broken: Script, stream: bool
) -> None:
    """G12, G13"""

    async def scenario(house: House) -> None:
        house.scripted.always["r1"] = broken
        answers = [await ask(house, stream=stream) for _ in range(2)]
        assert [answer.status for answer in answers] == [200, 200]
        assert all(b"t0 " in answer.body for answer in answers)
        assert not any(b"event: error" in answer.body for answer in answers)

    run(in_house, scenario, replicas=(replica("r1"), replica("r2")))


def test_refusal_of_the_replica_is_relayed_in_the_apis_shape(in_house: Any) -> None:
    words = (
        b'{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long"}}'
    )
    refusal = Script((Send(words),), status=400, headers=(("Content-Type", "application/json"),))

    async def scenario(house: House) -> None:
        answer = await ask(house, stream=True)
        assert (answer.status, answer.json()["error"]["message"]) == (400, "prompt is too long")
        assert len(house.scripted.attempts) == 1
        assert house.records[0].reason is Reason.UPSTREAM_REFUSED

    run(in_house, scenario, refusal)


def test_silent_stream_is_kept_alive_with_pings(in_house: Any) -> None:
    """G25"""

    async def scenario(house: House) -> None:
        answer = await ask(house, stream=True)
        ping = b'event: ping\ndata: {"type": "ping"}\n\n'
        assert answer.body == ping + sent(message(2))
        assert answer.times[0] == pytest.approx(10.0, abs=0.1)
        assert house.records[0].ttft_s == pytest.approx(20.0)

    run(in_house, scenario, message(2, ttft_s=19.9).later(0.1))


def test_client_that_leaves_owes_what_was_received(in_house: Any) -> None:
    """G5, R7"""

    async def scenario(house: House) -> None:
        leave = asyncio.Event()
        task = asyncio.create_task(ask(house, stream=True, leave=leave))
        await asyncio.sleep(1.05)
        leave.set()
        await task
        record = house.records[0]
        assert (record.outcome, record.reason) == ("aborted", Reason.CLIENT_GONE)
        assert record.completion_tokens == 10
        assert record.estimated
        attempt = house.scripted.attempts[0]
        assert attempt.closed_early
        assert attempt.left_at_s is not None
        assert attempt.left_at_s - attempt.started_at_s < 1.2

    run(in_house, scenario, message(500, ttft_s=0.1, gap_s=0.1))
