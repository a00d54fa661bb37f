"""The Responses API through the whole data plane: bytes, retries, errors in its own shape."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from gateway.pipeline.delivery import MAX_OPEN_BYTES
from tests.fakes import scripts
from tests.fakes.data_plane import MODEL, POOL, Answer, House
from tests.fakes.scripts import Cut, Hang, Script, Send, Wait
from tests.wire.responses.streams import WHOLE, closing, named, opening, response, text_delta

PATH = "/v1/responses"
RAW = b"".join(WHOLE)


def said(*pieces: bytes | Any) -> Script:
    return Script(tuple(Send(each) if isinstance(each, bytes) else each for each in pieces))


async def respond(house: House, given: Any = "hello", **fields: Any) -> Answer:
    return await house.call({"model": MODEL, "input": given, **fields}, path=PATH)


def run(in_house: Any, scenario: Any, default: Script | None = None, **options: Any) -> None:
    async def prepared(house: House) -> None:
        endpoints = frozenset({"chat/completions", "responses"})
        house.change(pools={POOL: replace(house.snapshot.pools[POOL], endpoints=endpoints)})
        house.scripted.default = default or said(*WHOLE)
        await scenario(house)
        await asyncio.sleep(0)
        assert house.leftovers == {}

    in_house(prepared, **options)


def events(answer: Answer) -> list[dict[str, Any]]:
    lines = answer.body.decode().splitlines()
    return [json.loads(line[6:]) for line in lines if line.startswith("data: ")]


def test_a_stream_comes_byte_for_byte(in_house: Any) -> None:
    async def scenario(house: House) -> None:
        answer = await respond(house, stream=True, instructions="be kind", x_vendor=[1])
        assert (answer.status, answer.body) == (200, RAW)
        assert answer.headers["content-type"].startswith("text/event-stream")
        sent = json.loads(house.scripted.attempts[0].body)
        assert house.scripted.attempts[0].path == PATH
        assert (sent["store"], sent["stream"], sent["model"]) == (False, True, "upstream-model")
        assert (sent["instructions"], sent["x_vendor"]) == ("be kind", [1])
        assert "stream_options" not in sent
        (record,) = house.records
        assert (record.endpoint, record.outcome) == ("responses", "completed")
        assert (record.prompt_tokens, record.cached_tokens) == (7, 4)
        assert (record.completion_tokens, record.estimated) == (2, False)

    run(in_house, scenario)


def test_any_cut_relays_the_same_bytes(in_house: Any) -> None:
    """G9: every byte offset"""

    async def scenario(house: House) -> None:
        for at in range(1, len(RAW), 3):
            house.scripted.default = said(RAW[:at], RAW[at:])
            assert (await respond(house, stream=True)).body == RAW, at

    run(in_house, scenario)


def test_without_a_stream_the_answer_is_the_response(in_house: Any) -> None:
    async def scenario(house: House) -> None:
        answer = await respond(house)
        assert answer.headers["content-type"] == "application/json"
        assert answer.json() == response()
        assert json.loads(house.scripted.attempts[0].body)["stream"] is True
        tiered = await respond(house, service_tier="flex")
        assert tiered.json() == response(service_tier="flex")
        assert tiered.headers["x-fairway-class"] == "batch"

    run(in_house, scenario)


@pytest.mark.parametrize("stream", [True, False])
def test_an_answer_may_be_nothing_but_its_end(in_house: Any, stream: bool) -> None:
    end = closing(0)[-1]

    async def scenario(house: House) -> None:
        answer = await respond(house, stream=stream)
        assert answer.status == 200
        assert answer.body == end if stream else answer.json() == response()
        assert answer.ended
        assert house.records[0].outcome == "completed"

    run(in_house, scenario, said(end))


def test_nothing_is_sent_before_the_first_content(in_house: Any) -> None:
    """R30: the beginning of a response is no content, so another replica can be asked."""

    async def scenario(house: House) -> None:
        first = house.scripted
        first.default = lambda target, body: said(
            *(WHOLE if len(first.attempts) > 1 else (*opening(), Wait(1.0), Cut()))
        )
        answer = await respond(house, stream=True)
        assert (answer.status, answer.body) == (200, RAW)
        assert {attempt.slug for attempt in first.attempts} == {"r1", "r2"}

    run(in_house, scenario)


BROKEN: dict[str, Script] = {
    "cut": said(*WHOLE[:5], Cut()),
    "ends too early": said(*WHOLE[:-1]),
    "ends with DONE": said(*WHOLE[:5], scripts.DONE),
    "failed": said(*WHOLE[:5], named("response.failed", 5, response=response("failed"))),
    "error event": said(*WHOLE[:5], named("error", 5, code="server_error", message="boom")),
    "garbled": said(*WHOLE[:5], b"data: {\n\n"),
    "stalled": said(*WHOLE[:5], Hang()),
}


@pytest.mark.parametrize("script", BROKEN.values(), ids=BROKEN)
def test_a_broken_stream_ends_with_the_apis_own_error_event(in_house: Any, script: Script) -> None:
    async def scenario(house: House) -> None:
        answer = await respond(house, stream=True)
        assert answer.status == 200
        assert answer.ended
        assert answer.body.startswith(b"".join(WHOLE[:5]))
        *told, last = events(answer)
        assert "response.completed" not in {event["type"] for event in told}
        assert "boom" not in str(last)
        assert b"[DONE]" not in answer.body
        assert last["type"] == "error"
        assert last["sequence_number"] == told[-1]["sequence_number"] + 1
        assert (record := house.records[0]).outcome == "failed"
        assert last["code"] == str(record.reason)
        assert record.completion_tokens == sum("delta" in event for event in told)

    run(in_house, scenario, script)


def test_the_error_event_of_unnumbered_events_has_the_number_that_follows(in_house: Any) -> None:
    async def scenario(house: House) -> None:
        *told, last = events(await respond(house, stream=True))
        assert last["sequence_number"] == len(told) == 5

    run(in_house, scenario, said(*opening(None), text_delta("x"), Cut()))


def test_an_error_after_a_keep_alive_is_the_first_event(in_house: Any) -> None:
    """What was read and never relayed has no number for the caller."""

    async def scenario(house: House) -> None:
        answer = await respond(house, stream=True)
        assert answer.body.startswith(b": waiting\n\n")
        (only,) = events(answer)
        assert (only["type"], only["sequence_number"]) == ("error", 0)

    run(in_house, scenario, said(*opening(), Wait(20.0), Cut()))


@pytest.mark.parametrize("name", ["failed", "error event", "cut"])
def test_without_a_stream_a_broken_one_is_asked_for_elsewhere(in_house: Any, name: str) -> None:
    async def scenario(house: House) -> None:
        for slug in ("r1", "r2"):
            house.scripted.say(slug, BROKEN[name])
        answers = [await respond(house), await respond(house)]
        assert response() in [answer.json() for answer in answers if answer.status == 200]
        assert len(house.scripted.attempts) > 2

    run(in_house, scenario)


def test_a_refusal_of_the_replica_is_told_whether_streamed_or_not(in_house: Any) -> None:
    error = {"code": "context_length_exceeded", "message": "The prompt is too long."}
    failed = named("response.failed", 1, response=response("failed", error=error))

    async def scenario(house: House) -> None:
        for stream in (True, False):
            answer = await respond(house, stream=stream)
            assert answer.status == 400
            assert answer.json()["error"]["message"] == "The prompt is too long."
            assert answer.json()["error"]["code"] == "context_length_exceeded"
        assert len(house.scripted.attempts) == 2

    run(in_house, scenario, said(opening()[0], failed))


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"background": True}, "background"),
        ({"store": True}, "store"),
    ],
)
def test_stored_state_is_refused(in_house: Any, fields: dict[str, Any], param: str) -> None:
    async def scenario(house: House) -> None:
        answer = await respond(house, **fields)
        assert (answer.status, answer.json()["error"]["param"]) == (400, param)
        assert house.scripted.attempts == []

    run(in_house, scenario)


def test_a_pool_without_the_endpoint_says_so(in_house: Any) -> None:
    async def scenario(house: House) -> None:
        answer = await respond(house)
        assert (answer.status, answer.json()["error"]["code"]) == (404, "endpoint_not_served")

    in_house(scenario)


def test_a_request_that_is_told_back_is_no_flood(in_house: Any) -> None:
    """Servers repeat instructions and tools in their first events; nothing else may be as long."""
    long = "x" * MAX_OPEN_BYTES
    begun = named("response.created", 0, response=response("in_progress", instructions=long))
    flood = said(begun, begun, *WHOLE)

    async def scenario(house: House) -> None:
        told_back = await respond(house, stream=True, instructions=long)
        assert told_back.body.endswith(RAW)
        flooded = await respond(house, stream=True)
        assert flooded.status == 502

    run(in_house, scenario, flood)


def test_a_last_event_of_megabytes_is_relayed(in_house: Any) -> None:
    end = closing(0, instructions="x" * 3_000_000)[-1]

    async def scenario(house: House) -> None:
        answer = await respond(house, stream=True)
        assert answer.body == text_delta("x", 0) + end

    run(in_house, scenario, said(text_delta("x", 0), end))
