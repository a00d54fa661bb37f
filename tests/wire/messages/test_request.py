import json
from typing import Any

import pytest

from gateway.core.errors import Rejected
from gateway.core.reasons import Reason
from gateway.wire.dialect import BodyBounds, Rewrite
from tests.wire.messages.streams import COUNT_TOKENS, HELLO, MESSAGES, parsed

IMAGE = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": "A" * 900},
}
TOOLS = [{"name": "weather", "input_schema": {"type": "object"}}]


def refused(**fields: Any) -> str:
    with pytest.raises(Rejected) as caught:
        parsed(**fields)
    assert caught.value.reason is Reason.INVALID_REQUEST
    return caught.value.param or ""


def said(*content: Any) -> list[Any]:
    return [{"role": "user", "content": list(content)}]


def test_request_is_read() -> None:
    body = parsed(stream=True, service_tier="auto", metadata={"user_id": "u1"}, system="Be brief")
    assert (body.model, body.stream, body.max_output_tokens, body.n) == ("m", True, 9, 1)
    assert (body.service_tier, body.user) == ("auto", "u1")
    assert body.prompt_bytes == len("user" + "hi" + "Be brief")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"max_tokens": None}, "max_tokens"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": "9"}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"messages": []}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"messages": [{"role": "", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": said({"text": "no type"})}, "messages[0].content[0].type"),
        ({"messages": said({"type": "text"})}, "messages[0].content[0].text"),
        ({"messages": said({"type": "image"})}, "messages[0].content[0].source"),
        ({"messages": said({"type": "tool_use", "id": "t"})}, "messages[0].content[0].name"),
        ({"messages": said({"type": "tool_result"})}, "messages[0].content[0].tool_use_id"),
        ({"messages": said({"type": "thinking"})}, "messages[0].content[0].thinking"),
        ({"messages": said({"type": "document"})}, "messages[0].content[0].source"),
        ({"system": 5}, "system"),
        ({"system": [{"type": "text"}]}, "system[0].text"),
        ({"temperature": 1.1}, "temperature"),
        ({"temperature": -0.1}, "temperature"),
        ({"top_p": 2}, "top_p"),
        ({"top_k": -1}, "top_k"),
        ({"top_k": 1.5}, "top_k"),
        ({"stop_sequences": "END"}, "stop_sequences"),
        ({"tools": [{"name": 5}]}, "tools[0].name"),
        ({"tools": [{"name": "x", "input_schema": []}]}, "tools[0].input_schema"),
        ({"tool_choice": {"type": "some"}}, "tool_choice.type"),
        ({"tool_choice": {"type": "tool"}}, "tool_choice.name"),
        ({"thinking": {"type": "enabled"}}, "thinking.budget_tokens"),
        ({"thinking": {"type": "enabled", "budget_tokens": 5}}, "thinking.budget_tokens"),
        ({"thinking": {"type": "hard"}}, "thinking.type"),
        ({"metadata": {"user_id": 5}}, "metadata.user_id"),
        ({"metadata": {"x_api_key": "s"}}, "metadata.x_api_key"),
        ({"service_tier": "priority"}, "service_tier"),
        ({"stream": "yes"}, "stream"),
        ({"api_base": "http://evil"}, "api_base"),
        ({"chat_template": "x"}, "chat_template"),
    ],
)
def test_wrong_field_is_named(fields: dict[str, Any], param: str) -> None:
    assert refused(**fields) == param


def test_max_tokens_is_required_only_where_something_is_generated() -> None:
    asked = {name: HELLO[name] for name in ("model", "messages")}
    with pytest.raises(Rejected) as caught:
        MESSAGES.parse(json.dumps(asked).encode(), BodyBounds())
    assert caught.value.param == "max_tokens"
    body = COUNT_TOKENS.parse(json.dumps({**asked, "temperature": 7}).encode(), BodyBounds())
    assert not body.stream


@pytest.mark.parametrize(
    "fields",
    [
        {"temperature": 0, "top_p": 1, "top_k": 40, "stop_sequences": ["END"]},
        {"system": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}]},
        {"tools": TOOLS, "tool_choice": {"type": "tool", "name": "weather"}},
        {"tools": [{"type": "web_search_20990101", "name": "web_search", "max_uses": 5}]},
        {"thinking": {"type": "enabled", "budget_tokens": 2048}},
        {"thinking": {"type": "adaptive", "display": "omitted"}},
        {"messages": said({"type": "vendor_block", "anything": [1, 2]})},
        {"messages": said({"type": "search_result", "source": "u", "title": "t", "content": []})},
        {"messages": [{"role": "system", "content": "x"}, *HELLO["messages"]]},
        {"messages": [{"role": "ctx", "content": "x"}, *HELLO["messages"]]},
        {"vendor": {"deep": [1, 2.5, None, "ü"]}},
    ],
)
def test_fields_known_and_unknown_reach_the_replica_untouched(fields: dict[str, Any]) -> None:
    """G11"""
    sent = json.loads(MESSAGES.upstream_body(parsed(**fields), Rewrite("up")))
    assert sent == {**HELLO, **fields, "model": "up", "stream": True}


def test_the_gateways_own_fields_are_overwritten() -> None:
    body = parsed(cache_salt="mine", priority=-5, stream=False)
    extras = {"stream_options": {"continuous_usage_stats": True}, "timings_per_token": True, "x": 1}
    sent = json.loads(MESSAGES.upstream_body(body, Rewrite("up", "salt", 2, extras=extras)))
    assert sent == {**HELLO, "model": "up", "stream": True, "cache_salt": "salt"} | {
        "priority": 2,
        "x": 1,
    }
    assert json.loads(MESSAGES.upstream_body(body, Rewrite("up"))).keys() == {*HELLO, "stream"}


def test_prompt_is_counted_wherever_it_stands() -> None:
    result = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "9"}]}
    plain = {"type": "document", "source": {"type": "text", "data": "abc"}, "title": "T"}
    body = parsed(
        system=[{"type": "text", "text": "sys"}],
        tools=TOOLS,
        messages=[
            {"role": "user", "content": [{"type": "text", "text": "four"}, IMAGE, plain]},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "S" * 500},
                    {"type": "tool_use", "id": "t", "name": "weather", "input": {"place": "Graz"}},
                ],
            },
            {"role": "user", "content": [result]},
        ],
    )
    tools, arguments = (
        len(json.dumps(x, separators=(",", ":"))) for x in (TOOLS, {"place": "Graz"})
    )
    words = len("userassistantuser" + "sys" + "four" + "abc" + "T" + "hm" + "weather" + "9")
    assert body.prompt_bytes == words + tools + arguments
    assert body.has_media


def test_tools_and_their_results_are_no_pictures() -> None:
    blocks: list[dict[str, Any]] = [
        {"type": "tool_use", "id": "t", "name": "f", "input": {}},
        {"type": "tool_result", "tool_use_id": "t", "content": "x"},
        {"type": "redacted_thinking", "data": "AAAA"},
    ]
    assert not parsed(messages=said(*blocks)).has_media
    assert parsed(messages=said({**blocks[1], "content": [IMAGE]})).has_media
