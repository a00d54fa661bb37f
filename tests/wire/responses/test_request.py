from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.core.errors import Rejected
from gateway.core.reasons import Reason
from gateway.wire.dialect import BodyBounds, Rewrite
from gateway.wire.prompt.canonical import canonical_prompt
from tests.wire.responses.streams import RESPONSES, parsed

TOOLS = [{"type": "function", "name": "weather", "parameters": {"type": "object"}}]
IMAGE = {"type": "input_image", "image_url": "data:image/png;base64," + "A" * 10_000}
TALK: list[dict[str, Any]] = [
    {"role": "user", "content": "hello"},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hey"}]},
    {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "rain"},
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "why"}], "content": None},
]


def upstream(body: Any, **rewrite: Any) -> Any:
    return json.loads(RESPONSES.upstream_body(body, Rewrite("up", **rewrite)))


def test_every_known_field_is_taken() -> None:
    body = parsed(
        TALK,
        instructions="be kind",
        max_output_tokens=50,
        tools=TOOLS,
        tool_choice={"type": "function", "name": "weather"},
        parallel_tool_calls=False,
        temperature=0.5,
        top_p=0.9,
        stream=True,
        text={"format": {"type": "json_schema", "name": "x", "schema": {}}, "verbosity": "low"},
        reasoning={"effort": "low", "summary": "auto"},
        metadata={"a": "b"},
        user="u",
        service_tier="flex",
        truncation="auto",
        include=["reasoning.encrypted_content"],
        prompt_cache_key="k",
        store=False,
        background=False,
        previous_response_id=None,
        conversation=None,
    )
    assert (body.stream, body.max_output_tokens, body.n) == (True, 50, 1)
    assert (body.service_tier, body.user, body.has_media) == ("flex", "u", False)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"previous_response_id": ""}, "previous_response_id"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"conversation": {"id": "conv_1"}}, "conversation"),
        ({"background": True}, "background"),
        ({"store": True}, "store"),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input[0]"),
        ({"input": []}, "input"),
        ({"input": ""}, "input"),
        ({"input": 5}, "input"),
        ({"input": ["a"]}, "input[0]"),
        ({"input": [{"role": "user", "content": 5}]}, "input[0].content"),
        ({"instructions": ["x"]}, "instructions"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"n": 2}, "n"),
        ({"n_cmpl": 2}, "n_cmpl"),
        ({"temperature": 3}, "temperature"),
        ({"top_p": "1"}, "top_p"),
        ({"truncation": "middle"}, "truncation"),
        ({"text": {"format": {}}}, "text.format.type"),
        ({"reasoning": {"effort": 1}}, "reasoning.effort"),
        ({"tools": {}}, "tools"),
        ({"stream": "yes"}, "stream"),
        ({"store": "no"}, "store"),
        ({"base_url": "http://evil"}, "base_url"),
        ({"metadata": {"other_api_key": "x"}}, "metadata.other_api_key"),
    ],
)
def test_what_is_not_accepted_is_named(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(Rejected) as caught:
        RESPONSES.parse(json.dumps({"model": "m", "input": "hi", **fields}).encode(), BodyBounds())
    assert (caught.value.reason, caught.value.param) == (Reason.INVALID_REQUEST, param)
    assert caught.value.status == 400


def test_a_missing_input_is_named() -> None:
    with pytest.raises(Rejected) as caught:
        RESPONSES.parse(b'{"model":"m"}', BodyBounds())
    assert caught.value.param == "input"


def test_the_replica_streams_and_stores_nothing() -> None:
    for fields in ({}, {"stream": False, "store": False}, {"stream": True, "store": None}):
        body = upstream(parsed(**fields))
        assert (body["stream"], body["store"], body["model"]) == (True, False, "up")
        assert "stream_options" not in body


def test_unknown_fields_pass_and_the_gateways_own_are_overwritten() -> None:
    vendor = {"deep": [1, 2.5, None, "ü"]}
    body = parsed(TALK, vendor=vendor, cache_salt="mine", priority=-5, max_tool_calls=3)
    sent = upstream(
        body,
        cache_salt="salt",
        extras={"timings_per_token": True, "stream_options": {"continuous_usage_stats": True}},
    )
    assert (sent["vendor"], sent["input"], sent["max_tool_calls"]) == (vendor, TALK, 3)
    assert (sent["cache_salt"], sent["timings_per_token"]) == ("salt", True)
    assert "priority" not in sent
    assert "stream_options" not in sent


def test_a_cap_is_set_where_a_server_needs_one() -> None:
    assert upstream(parsed(), max_tokens_if_absent=99)["max_output_tokens"] == 99
    capped = parsed(max_output_tokens=5)
    assert upstream(capped, max_tokens_if_absent=99)["max_output_tokens"] == 5
    assert "max_output_tokens" not in upstream(parsed())


def test_a_cap_of_a_servers_own_is_reserved_too() -> None:
    assert parsed(max_output_tokens=5, n_predict=500).max_output_tokens == 500


def test_text_is_counted_and_media_are_not() -> None:
    assert parsed("héllo").prompt_bytes == 6
    assert parsed("hi", instructions="be kind").prompt_bytes == 9
    with_tools = parsed("hi", tools=TOOLS)
    assert with_tools.prompt_bytes == 2 + len(json.dumps(TOOLS, separators=(",", ":")))
    picture = parsed([{"role": "user", "content": [{"type": "input_text", "text": "x"}, IMAGE]}])
    assert picture.has_media
    assert picture.prompt_bytes == len("userx")
    screen = {"type": "computer_call_output", "call_id": "c", "output": IMAGE}
    assert parsed([screen]).has_media
    assert parsed([screen]).prompt_bytes < 100
    words = sum(map(len, ("user", "hello", "message", "assistant", "hey", "function_call", "c1")))
    words += sum(map(len, ("weather", "{}", "function_call_output", "c1", "rain", "reasoning")))
    assert parsed(TALK).prompt_bytes == words + len("why")


def test_a_long_conversation_is_not_a_bomb() -> None:
    items = [{"role": "user", "content": [{"type": "input_text", "text": "a:b"}]}] * 5_000
    assert parsed(items).prompt_bytes == 5_000 * 7
    with pytest.raises(Rejected) as caught:
        parsed([{"role": "user", "content": [{"type": "input_text", "text": "x"}] * 5_000}])
    assert caught.value.reason is Reason.INVALID_REQUEST


def canonical(given: Any, **fields: Any) -> str:
    return canonical_prompt(parsed(given, **fields).body).text


def test_a_conversation_that_goes_on_begins_alike() -> None:
    """A text is the message of a user; what a client adds when it gives an item back is no
    prompt."""
    first = canonical("hello", instructions="be kind", tools=TOOLS)
    again = canonical(
        [{"type": "message", "role": "user", "content": "hello"}, *TALK[1:]],
        instructions="be kind",
        tools=TOOLS,
    )
    assert again.startswith(first)
    given_back = [TALK[0], {**TALK[1], "id": "msg_7", "status": "completed"}, *TALK[2:]]
    assert canonical(given_back) == canonical(TALK)


def test_what_a_template_shows_makes_another_prompt() -> None:
    texts = {
        canonical("hello"),
        canonical("hello", instructions="be kind"),
        canonical("hello", tools=TOOLS),
        canonical("hello", text={"format": {"type": "json_object"}}),
        canonical([{"role": "developer", "content": "hello"}]),
        canonical([{"role": "user", "content": [IMAGE]}]),
        canonical(TALK),
    }
    assert len(texts) == 7
