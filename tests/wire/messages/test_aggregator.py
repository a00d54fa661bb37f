import json
from typing import Any

import anthropic.types
import pytest

from gateway.core.errors import UpstreamError
from gateway.wire.dialect import Frame
from tests.wire.messages.streams import (
    MESSAGES,
    PING,
    STOP,
    WHOLE,
    aggregate,
    block,
    closed,
    delta,
    ended,
    event,
    parsed,
    started,
)


def test_answer_is_the_message_of_the_api() -> None:
    message = aggregate(WHOLE)
    assert message == {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": "Grüße 世界 🌍"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 3, "cache_read_input_tokens": 4, "output_tokens": 2},
    }
    assert anthropic.types.Message.model_validate(message).usage.output_tokens == 2


def test_blocks_stand_in_order_whatever_order_they_came_in() -> None:
    message = aggregate(
        started(),
        block("thinking", 0, thinking="", signature=""),
        block("tool_use", 2, id="t2", name="g", input={}),
        delta("thinking_delta", 0, thinking="let me "),
        block("text", 1, text=""),
        delta("input_json_delta", 2, partial_json=""),
        delta("text_delta", 1, text="I will "),
        delta("input_json_delta", 2, partial_json='{"place": "Gr'),
        delta("thinking_delta", 0, thinking="think"),
        delta("signature_delta", 0, signature="SIG"),
        delta("input_json_delta", 2, partial_json='az", "n": [1, 2]}'),
        delta("text_delta", 1, text="look"),
        block("tool_use", 3, id="t3", name="h", input={}),
        *(closed(index) for index in range(4)),
        ended("tool_use", output_tokens=20),
        STOP,
    )
    assert message["content"] == [
        {"type": "thinking", "thinking": "let me think", "signature": "SIG"},
        {"type": "text", "text": "I will look"},
        {"type": "tool_use", "id": "t2", "name": "g", "input": {"place": "Graz", "n": [1, 2]}},
        {"type": "tool_use", "id": "t3", "name": "h", "input": {}},
    ]
    assert message["stop_reason"] == "tool_use"
    anthropic.types.Message.model_validate(message)


@pytest.mark.parametrize(
    ("pieces", "wanted"),
    [
        (['{"place": "Gr'], {"place": "Gr"}),
        (['{"a": [1, 2', ", "], {"a": [1, 2]}),
        (["{"], {}),
        (["nonsense"], {}),
        (["[1]"], {}),
        (['{"a":1}', "x"], {"a": 1}),
    ],
)
def test_input_of_a_cut_tool_call_is_what_came_of_it(
    pieces: list[str], wanted: dict[str, Any]
) -> None:
    deltas = [delta("input_json_delta", partial_json=piece) for piece in pieces]
    begun = block("tool_use", id="t", name="f", input={})
    (call,) = aggregate(started(), begun, *deltas, ended("max_tokens"), STOP)["content"]
    assert call["input"] == wanted


def test_citations_are_gathered() -> None:
    first, second = ({"type": "char_location", "cited_text": text} for text in "ab")
    (text,) = aggregate(
        started(),
        block(text="", citations=None),
        delta("citations_delta", citation=first),
        delta(text="x"),
        delta("citations_delta", citation=second),
        ended(),
        STOP,
    )["content"]
    assert text == {"type": "text", "text": "x", "citations": [first, second]}


def test_stop_sequence_and_fields_of_the_future_are_kept() -> None:
    """G11"""
    last = event(
        "message_delta",
        delta={"stop_reason": "stop_sequence", "stop_sequence": "END", "container": {"id": "c"}},
        usage={"output_tokens": 3, "server_tool_use": {"web_search_requests": 1}},
        context_management=None,
    )
    message = aggregate(
        started(input_tokens=1, service_tier="standard"),
        block("vendor", note="a", n=1),
        delta("vendor_delta", note="b", n=2),
        last,
        STOP,
    )
    assert (message["stop_reason"], message["stop_sequence"]) == ("stop_sequence", "END")
    assert message["container"] == {"id": "c"}
    assert message["content"] == [{"type": "vendor", "note": "ab", "n": 2}]
    assert message["usage"] == {
        "input_tokens": 1,
        "output_tokens": 3,
        "service_tier": "standard",
        "server_tool_use": {"web_search_requests": 1},
    }


def test_tier_that_was_served_is_told() -> None:
    assert aggregate(WHOLE, service_tier="priority")["usage"]["service_tier"] == "priority"


def test_answer_of_a_sparing_replica_has_every_member_of_the_api() -> None:
    message = aggregate(event("message_start", message={}), ended(), PING, STOP)
    assert anthropic.types.Message.model_validate(message).content == []


def test_answer_is_bounded() -> None:
    aggregator = MESSAGES.aggregator(parsed())
    data = b'{"type":"ping","x":"' + b"x" * 1_000_000 + b'"}'
    for _ in range(67):
        aggregator.feed(Frame(b"", data))
    with pytest.raises(UpstreamError, match="larger than"):
        aggregator.feed(Frame(b"", data))


def test_frames_that_are_no_event_change_nothing() -> None:
    aggregator = MESSAGES.aggregator(parsed())
    before = aggregator.result()
    for frame in (Frame(b": x\n\n", None, None, True), Frame(b"", b"[DONE]"), Frame(b"", b"")):
        aggregator.feed(frame)
    assert aggregator.result() == before
    with pytest.raises(UpstreamError):
        aggregator.feed(Frame(b"", b'{"type":'))
    assert json.loads(before)["stop_reason"] is None
