"""POST /v1/responses"""

from __future__ import annotations

from typing import Any

from tests.conformance.checks import Dialect
from tests.conformance.errors import openai_error
from tests.conformance.server import Answer, Server, expect, expect_equal, expect_kind

PATH = "/v1/responses"
FINAL = ("response.completed", "response.incomplete")


def body(server: Server, **fields: Any) -> dict[str, Any]:
    asked = {"model": server.model, "input": "Tell me about the sea.", "store": False}
    return {**asked, "max_output_tokens": 8, **fields}


async def ask(server: Server, **fields: Any) -> Answer:
    return await server.post(PATH, body(server, **fields))


async def stream(server: Server, **fields: Any) -> list[dict[str, Any]]:
    events = (await ask(server, stream=True, **fields)).events()
    if events and events[-1].data == "[DONE]":
        events = events[:-1]
    told = [event.json() for event in events]
    for event, data in zip(events, told, strict=True):
        expect_equal(event.name, data["type"], "the name of an event")
    return told


RESPONSES = Dialect("responses", ask, [])


@RESPONSES.check
async def a_whole_answer_has_its_shape(server: Server) -> None:
    told = (await ask(server)).fine()
    expect_equal(told["object"], "response", "`object`")
    expect_kind(told["id"], str, "`id`")
    expect(told["status"] in ("completed", "incomplete"), f"`status` is {told['status']!r}")
    messages = [item for item in told["output"] if item["type"] == "message"]
    expect(messages, "there is no message in `output`")
    (part,) = messages[0]["content"]
    expect_equal(part["type"], "output_text", "the type of the content")
    usage = told["usage"]
    total = usage["input_tokens"] + usage["output_tokens"]
    expect_equal(usage["total_tokens"], total, "`usage.total_tokens`")


@RESPONSES.check
async def a_stream_begins_and_ends_as_it_should(server: Server) -> None:
    kinds = [event["type"] for event in await stream(server)]
    expect_equal(kinds[0], "response.created", "the first event")
    expect(kinds[-1] in FINAL, f"the last event is {kinds[-1]!r}")
    expect("response.output_text.delta" in kinds, "no text came")
    for kind in ("response.output_item", "response.content_part"):
        expect_equal(kinds.count(f"{kind}.added"), kinds.count(f"{kind}.done"), f"`{kind}.done`")


@RESPONSES.check
async def events_are_numbered(server: Server) -> None:
    numbers = [event["sequence_number"] for event in await stream(server)]
    expect_equal(numbers, sorted(set(numbers)), "the order of `sequence_number`")


@RESPONSES.check
async def the_deltas_are_the_text(server: Server) -> None:
    told = await stream(server)
    deltas = "".join(one["delta"] for one in told if one["type"] == "response.output_text.delta")
    final = told[-1]["response"]
    text = "".join(
        part["text"]
        for item in final["output"]
        if item["type"] == "message"
        for part in item["content"]
    )
    expect_equal(deltas, text, "the text of the deltas")
    expect_kind(final.get("usage"), dict, "`usage` of the last event")


@RESPONSES.check
async def an_earlier_response_is_found_or_refused(server: Server) -> None:
    answer = await ask(server, previous_response_id="resp_does_not_exist")
    expect(answer.status in (400, 404), f"the status is {answer.status}")
    openai_error(answer, answer.status, param="previous_response_id")


@RESPONSES.check
async def a_missing_input_is_400(server: Server) -> None:
    asked = body(server)
    del asked["input"]
    openai_error(await server.post(PATH, asked), 400, param="input")


@RESPONSES.check
async def an_unknown_model_is_404_also_of_a_stream(server: Server) -> None:
    for streamed in (False, True):
        openai_error(await ask(server, model="no-such-model", stream=streamed), 404)
