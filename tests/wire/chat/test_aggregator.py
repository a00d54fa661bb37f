from typing import Any

import pytest
from openai.types import Completion
from openai.types.chat import ChatCompletion

from gateway.core.errors import UpstreamError
from gateway.wire.chat.aggregator import AnswerAggregator
from gateway.wire.dialect import Frame
from tests.wire.chat.streams import (
    COMPLETIONS,
    USAGE,
    WHOLE,
    aggregate,
    chunk,
    delta,
    parsed,
    stream,
)


def message_of(*deltas: dict[str, Any]) -> dict[str, Any]:
    events = [delta(**fields) for fields in deltas]
    answer = aggregate(stream(*events, delta("stop"), "[DONE]"))
    message: dict[str, Any] = answer["choices"][0]["message"]
    return message


def test_chat_answer_is_the_public_object() -> None:
    answer = aggregate(WHOLE)
    assert answer == {
        "id": "c1",
        "created": 1,
        "model": "m",
        "object": "chat.completion",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Grüße 世界 🌍", "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": USAGE,
    }
    assert ChatCompletion.model_validate(answer, strict=True).usage is not None


def test_completion_answer_is_the_public_object() -> None:
    logprobs = {"tokens": ["a"], "token_logprobs": [-0.5], "top_logprobs": [{}], "text_offset": [0]}
    pieces = [
        {"index": 0, "text": "one ", "logprobs": logprobs, "finish_reason": None},
        {"index": 0, "text": "two", "logprobs": logprobs, "finish_reason": "length"},
    ]
    events = [chunk(object="text_completion", choices=[piece]) for piece in pieces]
    answer = aggregate(stream(*events, chunk(usage=USAGE), "[DONE]"), COMPLETIONS)
    (choice,) = Completion.model_validate(answer).choices
    assert answer["object"] == "text_completion"
    assert (choice.text, choice.finish_reason) == ("one two", "length")
    assert choice.logprobs is not None
    assert choice.logprobs.tokens == ["a", "a"]


def test_tool_calls_are_merged_by_index() -> None:
    def call(index: int, arguments: str, **fields: Any) -> dict[str, Any]:
        function = {"arguments": arguments, **fields.pop("function", {})}
        return {"tool_calls": [{"index": index, "function": function, **fields}]}

    message = message_of(
        {"role": "assistant", "content": None},
        call(0, "", id="a", type="function", function={"name": "f"}),
        call(0, '{"x":'),
        call(1, "{}", id="b", type="function", function={"name": "g"}),
        call(0, "1}", id="a"),
    )
    assert message["content"] is None
    assert message["tool_calls"] == [
        {"id": "a", "type": "function", "function": {"arguments": '{"x":1}', "name": "f"}},
        {"id": "b", "type": "function", "function": {"arguments": "{}", "name": "g"}},
    ]


def test_reasoning_and_text_are_kept_apart() -> None:
    message = message_of(
        {"reasoning_content": "hm "}, {"reasoning_content": "so"}, {"content": "42"}
    )
    assert (message["reasoning_content"], message["content"]) == ("hm so", "42")


def test_refusal_leaves_the_content_null() -> None:
    message = message_of({"refusal": "I will "}, {"refusal": "not"})
    assert (message["refusal"], message["content"]) == ("I will not", None)


def test_empty_answer_has_empty_content() -> None:
    assert message_of({"role": "assistant", "content": ""})["content"] == ""


def test_choices_are_told_apart_and_ordered() -> None:
    events = [delta(index=i, content=text) for i, text in ((1, "b"), (0, "a"), (1, "B"))]
    ends = [delta("stop", index=1), delta("length", index=0)]
    answer = aggregate(stream(*events, *ends, "[DONE]"), n=2)
    assert [(c["index"], c["message"]["content"]) for c in answer["choices"]] == [
        (0, "a"),
        (1, "bB"),
    ]
    assert [c["finish_reason"] for c in answer["choices"]] == ["length", "stop"]


def test_logprobs_of_all_events_are_joined() -> None:
    def scored(token: str) -> dict[str, Any]:
        logprobs = {
            "content": [{"token": token, "logprob": -1.0, "bytes": [1], "top_logprobs": []}]
        }
        item = {"index": 0, "delta": {"content": token}, "logprobs": logprobs}
        return chunk(choices=[{**item, "finish_reason": None}])

    answer = aggregate(stream(scored("a"), scored("b"), delta("stop"), "[DONE]"))
    tokens = [item["token"] for item in answer["choices"][0]["logprobs"]["content"]]
    assert tokens == ["a", "b"]


def test_unknown_fields_of_answer_choice_and_delta_are_kept() -> None:
    """G11"""
    vendor = {"index": 0, "delta": {"content": "x", "mood": "fine"}, "stop_reason": 7}
    last = {**chunk(choices=[{**vendor, "finish_reason": "stop"}]), "system_fingerprint": "f"}
    answer = aggregate(stream({**last, "timings": {"predicted_n": 1}}, "[DONE]"))
    assert answer["system_fingerprint"] == "f"
    assert answer["timings"] == {"predicted_n": 1}
    assert answer["choices"][0]["stop_reason"] == 7
    assert answer["choices"][0]["message"]["mood"] == "fine"


def test_usage_of_several_choices_is_of_the_whole_answer() -> None:
    ends = [delta("stop", index=i) for i in (1, 0)]
    reports = [chunk(usage={**USAGE, "vendor": i}) for i in (1, 2)]
    answer = aggregate(stream(ends[0], reports[0], ends[1], reports[1], "[DONE]"), n=2)
    assert answer["usage"]["completion_tokens"] == 4
    assert answer["usage"]["total_tokens"] == 11
    assert answer["usage"]["vendor"] == 2


def test_class_served_is_echoed() -> None:
    aggregator = AnswerAggregator(parsed(), "chat.completion", lambda choice: choice)
    assert b'"service_tier":"flex"' in aggregator.result(service_tier="flex")


def test_answer_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.wire.answers.gathered.MAX_ANSWER_BYTES", 100)
    aggregator = AnswerAggregator(parsed(), "chat.completion", lambda choice: choice)
    frame = Frame(b"", b'{"x":"' + b"x" * 60 + b'"}')
    aggregator.feed(frame)
    with pytest.raises(UpstreamError):
        aggregator.feed(frame)
