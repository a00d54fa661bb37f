"""POST /v1/chat/completions"""

from __future__ import annotations

from typing import Any

from tests.conformance.checks import Dialect
from tests.conformance.errors import openai_error
from tests.conformance.server import Answer, Event, Server, expect, expect_equal, expect_kind

PATH = "/v1/chat/completions"
FINISHED = ("stop", "length", "tool_calls", "content_filter")


def body(server: Server, **fields: Any) -> dict[str, Any]:
    question = [{"role": "user", "content": "Tell me about the sea."}]
    return {"model": server.model, "messages": question, "max_tokens": 8, **fields}


async def ask(server: Server, **fields: Any) -> Answer:
    return await server.post(PATH, body(server, **fields))


async def stream(server: Server, **fields: Any) -> list[dict[str, Any]]:
    """Its chunks, without the end."""
    answer = await ask(server, stream=True, **fields)
    return chunks(answer.events())


def chunks(events: list[Event]) -> list[dict[str, Any]]:
    expect(events, "the stream is empty")
    expect_equal(events[-1].data, "[DONE]", "the last event")
    return [event.json() for event in events[:-1]]


def expect_two(told: list[dict[str, Any]]) -> None:
    """A whole answer or the chunks of a stream: choices 0 and 1, each of which ends once."""
    choices = [choice for each in told for choice in each["choices"]]
    expect_equal({choice["index"] for choice in choices}, {0, 1}, "the set of `choices[].index`")
    ended = [choice["index"] for choice in choices if choice.get("finish_reason")]
    expect_equal(sorted(ended), [0, 1], "the choices with a finish reason")


CHAT = Dialect("chat", ask, [])


@CHAT.check
async def a_whole_answer_has_its_shape(server: Server) -> None:
    chat = (await ask(server)).fine()
    expect_equal(chat["object"], "chat.completion", "`object`")
    expect_kind(chat["id"], str, "`id`")
    expect_kind(chat["created"], int, "`created`")
    expect_equal(chat["model"], server.model, "`model`")
    (choice,) = chat["choices"]
    expect_equal(choice["index"], 0, "`choices[0].index`")
    expect_equal(choice["message"]["role"], "assistant", "the role")
    expect_kind(choice["message"]["content"], str, "the content")
    expect(choice["finish_reason"] in FINISHED, f"finish_reason {choice['finish_reason']!r}")


@CHAT.check
async def usage_adds_up(server: Server) -> None:
    usage = (await ask(server)).fine()["usage"]
    for name in ("prompt_tokens", "completion_tokens", "total_tokens"):
        expect_kind(usage[name], int, f"`usage.{name}`")
    total = usage["prompt_tokens"] + usage["completion_tokens"]
    expect_equal(usage["total_tokens"], total, "`usage.total_tokens`")


@CHAT.check
async def max_tokens_ends_an_answer(server: Server) -> None:
    for name in ("max_tokens", "max_completion_tokens"):
        asked = body(server, **{name: 3})
        if name != "max_tokens":
            del asked["max_tokens"]
        chat = (await server.post(PATH, asked)).fine()
        expect(chat["usage"]["completion_tokens"] <= 3, f"more than 3 tokens with `{name}`: 3")


@CHAT.check
async def a_stream_has_its_shape(server: Server) -> None:
    told = await stream(server)
    expect_equal({each["object"] for each in told}, {"chat.completion.chunk"}, "`object`")
    expect_equal(len({each["id"] for each in told}), 1, "the number of different `id`")
    expect_equal({each["model"] for each in told}, {server.model}, "`model`")
    deltas = [choice["delta"] for each in told for choice in each["choices"]]
    expect_equal(deltas[0].get("role"), "assistant", "the role of the first chunk")
    expect("".join(delta.get("content") or "" for delta in deltas), "the stream has no content")


@CHAT.check
async def a_stream_tells_once_why_it_ended(server: Server) -> None:
    choices = [choice for each in await stream(server) for choice in each["choices"]]
    ends = [choice["finish_reason"] for choice in choices if choice.get("finish_reason")]
    expect_equal(len(ends), 1, "the number of finish reasons")
    expect(ends[0] in FINISHED, f"finish_reason {ends[0]!r}")
    expect(choices[-1].get("finish_reason"), "content after the finish reason")


@CHAT.check
async def a_stream_has_usage_at_its_end_when_asked(server: Server) -> None:
    told = await stream(server, stream_options={"include_usage": True})
    last = told[-1]
    expect_equal(last["choices"], [], "`choices` of the last chunk")
    expect_kind(last.get("usage"), dict, "`usage` of the last chunk")
    expect(not any(each.get("usage") for each in told[:-1]), "usage before the last chunk")


@CHAT.check
async def a_stream_has_no_usage_when_not_asked(server: Server) -> None:
    told = await stream(server)
    expect(not any(each.get("usage") for each in told), "usage that nobody asked for")
    expect(all(each["choices"] for each in told), "a chunk without choices")


@CHAT.check
async def a_stream_and_a_whole_answer_count_alike(server: Server) -> None:
    whole = (await ask(server, temperature=0)).fine()["usage"]
    told = await stream(server, temperature=0, stream_options={"include_usage": True})
    expect_equal(told[-1]["usage"]["prompt_tokens"], whole["prompt_tokens"], "`prompt_tokens`")


@CHAT.check
async def two_choices_are_two(server: Server) -> None:
    told = (await ask(server, n=2, max_tokens=1)).fine()
    expect_two([told])
    for choice in told["choices"]:
        expect_equal(choice["message"]["role"], "assistant", "the role")
    tokens = told["usage"]["completion_tokens"]
    expect(tokens > 1, f"`usage.completion_tokens` of two choices of 1 token is {tokens}")


@CHAT.check
async def a_stream_of_two_choices_has_one_usage_at_its_end(server: Server) -> None:
    told = await stream(server, n=2, max_tokens=1, stream_options={"include_usage": True})
    expect_two(told)
    expect_equal(sum(bool(each.get("usage")) for each in told), 1, "the number of usages")
    expect_equal(told[-1]["choices"], [], "`choices` of the last chunk")
    tokens = told[-1]["usage"]["completion_tokens"]
    expect(tokens > 1, f"`usage.completion_tokens` of two choices of 1 token is {tokens}")


@CHAT.check
async def content_may_be_parts(server: Server) -> None:
    parts = [{"type": "text", "text": "Tell me "}, {"type": "text", "text": "of Zürich 🌊."}]
    (await ask(server, messages=[{"role": "user", "content": parts}])).fine()


@CHAT.check
async def fields_that_are_not_known_pass(server: Server) -> None:
    (await ask(server, x_vendor={"deep": [1, None, "ü"]}, user="u1", metadata={"a": "b"})).fine()


@CHAT.check
async def a_body_that_is_no_json_is_400(server: Server) -> None:
    openai_error(await server.post(PATH, b'{"model": '), 400)


@CHAT.check
async def a_field_of_a_wrong_kind_is_400_and_named(server: Server) -> None:
    openai_error(await ask(server, max_tokens="many"), 400, param="max_tokens")
    openai_error(await ask(server, messages="hi"), 400, param="messages")


@CHAT.check
async def no_messages_are_400(server: Server) -> None:
    asked = body(server)
    del asked["messages"]
    openai_error(await server.post(PATH, asked), 400, param="messages")


@CHAT.check
async def an_unknown_model_is_404_also_of_a_stream(server: Server) -> None:
    for streamed in (False, True):
        error = openai_error(await ask(server, model="no-such-model", stream=streamed), 404)
        expect_equal(error["code"], "model_not_found", "`error.code`")


@CHAT.check
async def a_wrong_key_is_401(server: Server) -> None:
    for key in ("", "sk-wrong"):
        openai_error(await server.post(PATH, body(server), key=key), 401)


@CHAT.check
async def another_method_is_405(server: Server) -> None:
    openai_error(await server.call("GET", PATH), 405)


@CHAT.check
async def an_answer_names_its_request(server: Server) -> None:
    first, second = [(await ask(server)).headers.get("x-request-id") for _ in range(2)]
    expect(first and second and first != second, "no x-request-id of its own")
