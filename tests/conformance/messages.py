"""POST /v1/messages and /v1/messages/count_tokens"""

from __future__ import annotations

from itertools import groupby
from typing import Any

from tests.conformance.checks import Dialect
from tests.conformance.errors import anthropic_error
from tests.conformance.server import Answer, Server, expect, expect_equal, expect_kind

PATH = "/v1/messages"
FINISHED = ("end_turn", "max_tokens", "stop_sequence", "tool_use")


def body(server: Server, **fields: Any) -> dict[str, Any]:
    question = [{"role": "user", "content": "Tell me about the sea."}]
    return {"model": server.model, "messages": question, "max_tokens": 8, **fields}


async def ask(server: Server, **fields: Any) -> Answer:
    return await server.post(PATH, body(server, **fields))


async def stream(server: Server, **fields: Any) -> list[dict[str, Any]]:
    events = (await ask(server, stream=True, **fields)).events()
    told = [event.json() for event in events]
    for event, data in zip(events, told, strict=True):
        expect_equal(event.name, data["type"], "the name of an event")
    return [data for data in told if data["type"] != "ping"]


MESSAGES = Dialect("messages", ask, [])


@MESSAGES.check
async def a_whole_message_has_its_shape(server: Server) -> None:
    told = (await ask(server, system="Be brief.")).fine()
    expect_equal((told["type"], told["role"]), ("message", "assistant"), "`type`, `role`")
    expect_equal(told["model"], server.model, "`model`")
    expect_equal(told["content"][0]["type"], "text", "`content[0].type`")
    expect(told["stop_reason"] in FINISHED, f"`stop_reason` is {told['stop_reason']!r}")
    expect("stop_sequence" in told, "`stop_sequence` is missing")
    for name in ("input_tokens", "output_tokens"):
        expect_kind(told["usage"][name], int, f"`usage.{name}`")


@MESSAGES.check
async def a_stream_has_its_order(server: Server) -> None:
    kinds = [kind for kind, _ in groupby(event["type"] for event in await stream(server))]
    expect_equal(kinds[0], "message_start", "the first event")
    expect_equal(kinds[-2:], ["message_delta", "message_stop"], "the end")
    middle = ("content_block_start", "content_block_delta", "content_block_stop")
    expect_equal([kind for kind in kinds if kind in middle][:3], list(middle), "the first block")


@MESSAGES.check
async def a_stream_counts_its_tokens(server: Server) -> None:
    told = await stream(server)
    started, ended = told[0]["message"], told[-2]
    expect_kind(started["usage"]["input_tokens"], int, "`message.usage.input_tokens`")
    expect(0 < ended["usage"]["output_tokens"] <= 8, f"usage at the end {ended['usage']!r}")
    expect(ended["delta"]["stop_reason"] in FINISHED, f"{ended['delta']!r}")


@MESSAGES.check
async def the_key_may_come_as_x_api_key(server: Server) -> None:
    answer = await server.post(PATH, body(server), key="", headers={"x-api-key": server.key})
    answer.fine()


@MESSAGES.check
async def content_may_be_blocks(server: Server) -> None:
    blocks = [{"type": "text", "text": "Of Zürich 🌊."}]
    system = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    (await ask(server, messages=[{"role": "user", "content": blocks}], system=system)).fine()


@MESSAGES.check
async def tokens_are_counted_as_they_are_charged(server: Server) -> None:
    asked = body(server)
    del asked["max_tokens"]
    counted = (await server.post(f"{PATH}/count_tokens", asked)).fine()["input_tokens"]
    usage = (await ask(server)).fine()["usage"]
    cached = [usage.get(f"cache_{what}_input_tokens") or 0 for what in ("read", "creation")]
    expect_equal(usage["input_tokens"] + sum(cached), counted, "`input_tokens`")


@MESSAGES.check
async def max_tokens_is_required(server: Server) -> None:
    asked = body(server)
    del asked["max_tokens"]
    error = anthropic_error(await server.post(PATH, asked), 400, "invalid_request_error")
    expect("max_tokens" in error["message"], "the message does not name `max_tokens`")


@MESSAGES.check
async def a_body_that_is_no_json_is_400(server: Server) -> None:
    anthropic_error(await server.post(PATH, b"{"), 400, "invalid_request_error")


@MESSAGES.check
async def an_unknown_model_is_404_also_of_a_stream(server: Server) -> None:
    for streamed in (False, True):
        answer = await ask(server, model="no-such-model", stream=streamed)
        anthropic_error(answer, 404, "not_found_error")


@MESSAGES.check
async def a_wrong_key_is_401(server: Server) -> None:
    answer = await server.post(PATH, body(server), key="", headers={"x-api-key": "sk-wrong"})
    anthropic_error(answer, 401, "authentication_error")


@MESSAGES.check
async def an_answer_names_its_request(server: Server) -> None:
    expect((await ask(server)).headers.get("request-id"), "there is no request-id")
