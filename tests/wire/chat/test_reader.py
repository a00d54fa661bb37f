import json
from typing import Any

import pytest

from gateway.core.dispatch.effects import Usage
from gateway.core.errors import ReplicaFull, UpstreamError
from gateway.core.reasons import Reason
from gateway.wire.dialect import Rewrite
from tests.wire.chat.streams import (
    CHAT,
    COMPLETIONS,
    USAGE,
    WHOLE,
    chunk,
    delta,
    event,
    frames,
    parsed,
    read,
    stream,
)

CONTENT: dict[str, dict[str, Any]] = {
    "text": {"content": "x"},
    "reasoning_content": {"reasoning_content": "x"},
    "reasoning": {"reasoning": "x"},
    "tool call": {"tool_calls": [{"index": 0, "id": "t", "function": {"name": "f"}}]},
    "function call": {"function_call": {"name": "f"}},
    "refusal": {"refusal": "x"},
    "audio": {"audio": {"data": "AAAA"}},
    "content in parts": {"content": [{"type": "text", "text": "x"}]},
}


def relayed(raw: bytes, **request: Any) -> bytes:
    return b"".join(facts.relay for facts in read(raw, parsed(**request)))


@pytest.mark.parametrize("fields", CONTENT.values(), ids=CONTENT)
def test_each_kind_of_content_commits_the_stream(fields: dict[str, Any]) -> None:
    (facts,) = read(event(delta(**fields)))
    assert facts.has_content
    assert facts.commits
    assert facts.tokens == 1
    assert facts.is_reasoning_only == ("reasoning" in str(fields))


@pytest.mark.parametrize(
    "raw",
    [
        event(delta(role="assistant")),
        event(delta(role="assistant", content=None)),
        event(delta(role="assistant", content="", tool_calls=[], reasoning_content="")),
        event(delta()),
        b": ping\n\n",
        event(chunk(choices=[])),
        event(""),
        event({"vendor": 1}),
    ],
)
def test_what_says_nothing_does_not_commit(raw: bytes) -> None:
    """R30: a role-only first chunk is no first token."""
    (facts,) = read(raw)
    assert not facts.commits
    assert facts.error is None
    assert facts.tokens == 0
    assert facts.relay == raw


def test_finish_reason_commits_without_being_content() -> None:
    (facts,) = read(event(delta("stop")))
    assert facts.commits
    assert not facts.has_content


def test_done_inside_text_is_text() -> None:
    """R30"""
    text, done = read(stream(delta("stop", content="data: [DONE]\n\n[DONE]"), "[DONE]"))
    assert (text.is_done, done.is_done) == (False, True)
    assert text.has_content


def test_usage_event_is_kept_from_callers_who_did_not_ask() -> None:
    """G8"""
    usage_event = event(chunk(usage=USAGE))
    without = WHOLE.replace(usage_event, b"")
    assert relayed(WHOLE) == without
    assert relayed(WHOLE, stream_options={"include_usage": False}) == without
    assert relayed(WHOLE, stream_options={"include_usage": True}) == WHOLE


@pytest.mark.parametrize("asked", [True, False])
def test_usage_is_known_whether_or_not_the_caller_asked(asked: bool) -> None:
    """G8"""
    body = parsed(stream_options={"include_usage": asked})
    reader = CHAT.reader(body, Rewrite("m"))
    seen = [reader.facts(frame) for frame in frames(WHOLE)]
    assert [facts.usage for facts in seen if facts.usage] == [Usage(7, 4, 2)]
    assert reader.usage == Usage(7, 4, 2)
    assert reader.is_complete()
    assert [facts.gateway_only for facts in seen].count(True) == (0 if asked else 1)


def test_running_usage_that_only_the_gateway_asked_for_is_cut_out() -> None:
    """G8: clients add up every usage that they see."""
    counted = {**delta(content=',"usage":{"a":1}', role="assistant"), "usage": USAGE, "z": 1}
    plain = {**delta(content=',"usage":{"a":1}', role="assistant"), "z": 1}
    compact = [b"data: " + json.dumps(c, separators=(",", ":")).encode() for c in (counted, plain)]
    extras = {"stream_options": {"continuous_usage_stats": True}}
    for raw, wanted in ((event(counted), event(plain)), (compact[0], compact[1])):
        (facts,) = read(raw, parsed(stream_options={"include_usage": True}), **extras)
        assert facts.relay == wanted
        assert facts.tokens == 2
    asked = parsed(stream_options={"continuous_usage_stats": True})
    assert read(event(counted), asked, **extras)[0].relay == event(counted)


def test_usage_in_the_finish_event_becomes_an_event_of_its_own_for_who_asked() -> None:
    """G8"""
    told = {**delta("stop"), "usage": USAGE}
    last, after = event(told), event({**told, "choices": []})
    for asked in (False, True):
        reader = CHAT.reader(parsed(stream_options={"include_usage": asked}), Rewrite("m"))
        (facts,) = map(reader.facts, frames(last))
        assert facts.usage == Usage(7, 4, 2)
        first, *rest = frames(facts.relay)
        assert json.loads(first.data or b"") == delta("stop")
        assert [json.loads(frame.data or b"") for frame in rest] == [
            {**told, "choices": []}
        ] * asked
        (again,) = map(reader.facts, frames(after))  # and is told once
        assert (again.relay, again.usage) == (b"", Usage(7, 4, 2))
        assert reader.is_complete(needs_done=False)
        assert not reader.is_complete()


def choice(index: int, **fields: Any) -> dict[str, Any]:
    return chunk(choices=[{"index": index, "delta": {"content": "x"}, **fields}])


DONE = b"data: [DONE]\n\n"
OF_TWO = {  # how servers report the usage of two choices
    "once, for all": [chunk(choices=[], usage={**USAGE, "completion_tokens": 4})],
    "once per choice": [chunk(choices=[], usage=USAGE)] * 2,
}


@pytest.mark.parametrize("reports", OF_TWO.values(), ids=OF_TWO)
@pytest.mark.parametrize("asked", [False, True])
def test_usage_of_several_choices_is_one_event_at_the_end(
    reports: list[dict[str, Any]], asked: bool
) -> None:
    """G8"""
    ends = [choice(index, finish_reason="stop") for index in (0, 1)]
    events = [ends[0], reports[0], ends[1], *reports[1:]]
    raw = relayed(stream(*events) + DONE, n=2, stream_options={"include_usage": asked})
    told = [json.loads(frame.data or b"") for frame in frames(raw) if frame.data != b"[DONE]"]
    assert [each["choices"] for each in told] == [*(end["choices"] for end in ends), *[[]] * asked]
    usages = [each["usage"]["completion_tokens"] for each in told if each.get("usage")]
    assert usages == [4] * asked


@pytest.mark.parametrize("asked", [False, True])
def test_usage_in_the_finish_events_of_several_choices_is_one_event_at_the_end(
    asked: bool,
) -> None:
    """G8"""
    ends = [{**choice(index, finish_reason="stop"), "usage": USAGE} for index in (0, 1)]
    raw = relayed(stream(*ends) + DONE, n=2, stream_options={"include_usage": asked})
    told = [json.loads(frame.data or b"") for frame in frames(raw) if frame.data != b"[DONE]"]
    assert [bool(each.get("usage")) for each in told] == [False, False, *[True] * asked]
    assert [each["choices"] for each in told[2:]] == [[]] * asked


def test_an_event_that_is_null_is_left_out() -> None:
    """llama.cpp sends one before the choices of several prompts."""
    raw = b"data: null\n\n"
    (facts,) = read(raw)
    assert (facts.relay, facts.error, facts.commits) == (b"", None, False)
    assert relayed(raw + WHOLE, stream_options={"include_usage": True}) == WHOLE


def test_progress_frames_that_only_the_gateway_asked_for_are_not_relayed() -> None:
    raw = event({**delta(), "prompt_progress": {"total": 9, "cache": 3, "processed": 5}})
    (facts,) = read(raw)
    assert (facts.relay, facts.gateway_only, facts.progress_only) == (b"", True, True)
    (asked,) = read(raw, parsed(return_progress=True))
    assert (asked.relay, asked.gateway_only, asked.progress_only) == (raw, False, True)


def test_tokens_follow_the_replicas_own_count() -> None:
    events = [{**delta(content="x"), "timings": {"predicted_n": n}} for n in (1, 3, 8)]
    assert [facts.tokens for facts in read(stream(*events))] == [1, 3, 8]
    events = [{**delta(content="x"), "usage": {"completion_tokens": n}} for n in (8, 16)]
    assert [facts.tokens for facts in read(stream(*events))] == [8, 16]


def test_tokens_of_several_choices_add_up() -> None:
    events = [delta(index=i, content="x") for i in (0, 1, 0, 1, 1)]
    assert read(stream(*events), parsed(n=2))[-1].tokens == 5
    timed = [{**delta(index=i, content="x"), "timings": {"predicted_n": 4}} for i in (0, 1)]
    assert read(stream(*timed), parsed(n=2))[-1].tokens == 8


def usage_of(raw: bytes, **fields: Any) -> Usage | None:
    body = parsed(**fields)
    reader = CHAT.reader(body, Rewrite("m"))
    for frame in frames(raw):
        reader.facts(frame)
    assert reader.usage is None or reader.tokens == reader.usage.output_tokens
    return reader.usage


def test_usage_of_all_choices_is_found_however_it_is_reported() -> None:
    """G1: in one event for all, in one event each, in each finish event, or running."""
    first, second = (delta("stop", index=i, content="x") for i in (1, 0))
    each, both = chunk(usage=USAGE), chunk(usage={**USAGE, "completion_tokens": 4})
    whole = Usage(7, 4, 4)
    assert usage_of(stream(first, second, both), n=2) == whole
    assert usage_of(stream(first, each, second, each), n=2) == whole
    assert usage_of(stream(first, second, each, each), n=2) == whole
    finishing = stream({**first, "usage": USAGE}, {**second, "usage": USAGE})
    assert usage_of(finishing, n=2) == whole
    running = {**delta(index=0, content="x"), "usage": USAGE}
    assert usage_of(stream(running) + finishing + event(both), n=2) == whole
    assert usage_of(stream(running, first, each), n=2) is None


def test_every_prompt_counts() -> None:
    body = parsed(COMPLETIONS, prompt=["a", "b"])
    reader = COMPLETIONS.reader(body, Rewrite("m"))
    ends = [
        chunk(choices=[{"index": i, "text": "x", "finish_reason": "stop"}], usage=USAGE)
        for i in (0, 1)
    ]
    for frame in frames(stream(*ends)):
        reader.facts(frame)
    assert reader.usage == Usage(14, 8, 4)


def test_final_usage_replaces_the_count() -> None:
    assert read(WHOLE)[-1].tokens == USAGE["completion_tokens"]


def test_stream_is_complete_only_when_every_choice_has_finished() -> None:
    """G12, row 43"""
    cut = stream(delta("stop", index=0, content="x"), delta(index=1, content="x"), "[DONE]")
    *_, last = read(cut, parsed(n=2))
    assert last.error is not None
    assert last.error.reason is Reason.UPSTREAM_INCOMPLETE
    assert (last.relay, last.is_done) == (b"", False)


def test_stream_without_its_end_marker_is_not_complete() -> None:
    """Row 43"""
    reader = CHAT.reader(parsed(), Rewrite("m"))
    for frame in frames(stream(delta("stop", content="x"))):
        reader.facts(frame)
    assert not reader.is_complete()
    assert reader.finish_reason == "stop"


HIDDEN = {
    "error object": event({"error": {"message": "boom", "code": 500}}),
    "error string": event({"error": "boom"}),
    "error beside choices": event({**delta(content="x"), "error": {"message": "boom"}}),
    "object error": event({"object": "error", "message": "boom", "code": "nonsense"}),
    "bare error": event({"message": "boom", "type": "server_error"}),
    "error event": b"event: error\ndata: {}\n\n",
    "error event without data": b"event: error\n\n",
    "error event with text": b"event: error\ndata: boom\n\n",
    "html": b"<!DOCTYPE html>\n<html>boom</html>\n\n",
    "json that is no event": b'{"error":{"message":"boom"}}',
    "whole answer": b'{"object":"chat.completion","choices":[]}',
    "broken json": event('{"choices":['),
    "no object": event("[1,2]"),
    "number": event("7"),
    "bad UTF-8": b'data: {"choices":[{"delta":{"content":"\xff"}}]}\n\n',
}


@pytest.mark.parametrize("raw", HIDDEN.values(), ids=HIDDEN)
def test_error_inside_a_200_is_found_and_not_relayed(raw: bytes) -> None:
    """G13, rows 44 and 48"""
    (facts,) = read(raw)
    assert isinstance(facts.error, UpstreamError)
    assert facts.error.reason is Reason.UPSTREAM_ERROR
    assert facts.error.status == 502
    assert facts.relay == b""
    assert not facts.commits
    assert "boom" not in facts.error.message


def test_null_error_is_no_error() -> None:
    (facts,) = read(event({**delta(content="x"), "error": None}))
    assert facts.error is None
    assert facts.has_content


def test_refusal_inside_a_200_blames_nobody() -> None:
    (facts,) = read(event({"error": {"message": "too long", "code": 400}}))
    assert facts.error is not None
    assert facts.error.reason is Reason.UPSTREAM_REFUSED
    assert (facts.error.status, facts.error.retryable) == (400, False)
    assert not facts.error.blames_replica


def test_overload_inside_a_200_is_a_hint_that_the_replica_is_full() -> None:
    (facts,) = read(event({"object": "error", "message": "busy", "code": "503"}))
    assert isinstance(facts.error, ReplicaFull)


def test_odd_types_of_known_fields_are_not_errors() -> None:
    """G11"""
    odd = chunk(
        choices=[{"index": "0", "delta": {"content": "x", "role": 5}, "finish_reason": None}],
        usage={"prompt_tokens": "many"},
        timings=[],
    )
    (facts,) = read(event(odd))
    assert facts.error is None
    assert facts.has_content
    assert facts.relay == event(odd)


def test_negative_usage_is_not_believed() -> None:
    facts = read(stream(delta("stop"), chunk(usage={**USAGE, "completion_tokens": -5})))
    assert facts[-1].usage is None
    assert facts[-1].tokens >= 0


def test_cached_tokens_never_exceed_the_prompt() -> None:
    usage = {**USAGE, "prompt_tokens_details": {"cached_tokens": 10**9}}
    assert read(stream(delta("stop"), chunk(usage=usage)))[-1].usage == Usage(7, 7, 2)


def test_vendor_fields_are_relayed_byte_for_byte() -> None:
    """G11"""
    raw = b'event: message\nid: 4\ndata: {"choices":[{"index":0,"delta":{"content":"x"},\n'
    raw += b'data:  "vendor":{"b" : 1.50, "a":[]}}] , "z":"\\u00fc"}\n\n'
    (facts,) = read(raw)
    assert facts.relay == raw
    assert facts.has_content


def test_completions_read_text() -> None:
    body = parsed(COMPLETIONS)
    reader = COMPLETIONS.reader(body, Rewrite("m"))
    raw = stream(
        chunk(choices=[{"index": 0, "text": "", "finish_reason": None}]),
        chunk(choices=[{"index": 0, "text": "x", "finish_reason": "stop"}]),
        "[DONE]",
    )
    empty, text, done = [reader.facts(frame) for frame in frames(raw)]
    assert (empty.commits, text.has_content, done.is_done) == (False, True, True)
