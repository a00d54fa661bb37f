from __future__ import annotations

import json
import random
import re
from typing import Any

import pytest
from openai.types.responses import ResponseErrorEvent

from gateway.core.dispatch.effects import Usage
from gateway.core.errors import CallError, Rejected, ReplicaFull, UpstreamError
from gateway.core.reasons import Reason
from gateway.wire.answers.sse import SseSplitter
from gateway.wire.dialect import Frame, Rewrite
from tests.wire.responses.streams import (
    RESPONSES,
    USAGE,
    WHOLE,
    closing,
    named,
    opening,
    parsed,
    read,
    response,
    text_delta,
)

RAW = b"".join(WHOLE)
DELTAS = {
    "text": "response.output_text.delta",
    "refusal": "response.refusal.delta",
    "arguments": "response.function_call_arguments.delta",
    "input of a tool": "response.custom_tool_call_input.delta",
    "thought": "response.reasoning_text.delta",
    "summary": "response.reasoning_summary_text.delta",
    "audio": "response.audio.delta",
    "one that is new": "response.vendor_thing.delta",
}


@pytest.mark.parametrize("kind", DELTAS.values(), ids=DELTAS)
def test_each_kind_of_delta_commits_the_stream(kind: str) -> None:
    (facts,) = read(named(kind, delta="x"))
    assert (facts.has_content, facts.commits, facts.tokens) == (True, True, 1)
    assert facts.is_reasoning_only == ("reasoning" in kind)


@pytest.mark.parametrize(
    "raw",
    [
        *opening(),
        text_delta(""),
        named("response.output_text.delta", delta=None),
        named("response.output_text.done", text="x"),
        named("response.function_call_arguments.done", arguments="{}"),
        named("response.reasoning_summary_part.added", part={"text": ""}),
        named("response.output_item.done", item={"type": "message"}),
        named("response.queued", response={"status": "queued"}),
        named("response.vendor", delta="x"),
        b": ping\n\n",
        b"event: ping\ndata: {}\n\n",
        b"data: \n\n",
    ],
)
def test_what_says_nothing_does_not_commit(raw: bytes) -> None:
    """R30"""
    (facts,) = read(raw)
    assert (facts.commits, facts.tokens, facts.error) == (False, 0, None)
    assert unnumbered(facts.relay) == raw


def test_every_byte_is_relayed_at_every_cut() -> None:
    """G9: every byte offset"""
    for at in range(len(RAW) + 1):
        splitter, reader = SseSplitter(), RESPONSES.reader(parsed(), Rewrite("up"))
        frames = splitter.feed(RAW[:at]) + splitter.feed(RAW[at:]) + splitter.finish()
        facts = [reader.facts(frame) for frame in frames]
        assert b"".join(each.relay for each in facts) == RAW
        assert reader.is_complete()
        assert reader.usage == Usage(7, 4, 2)
        assert [each.is_done for each in facts].count(True) == 1


def test_vendor_fields_and_line_ends_stay() -> None:
    """G11"""
    raw = b'id: 4\r\nevent: response.output_text.delta\r\ndata: {"type":"response.output_text.'
    raw += b'delta","delta":"\\u00fc", "vendor" : {"b" : 1.50}}\r\n\r\n'
    (facts,) = read(raw)
    assert (unnumbered(facts.relay), facts.has_content) == (raw, True)


def test_events_that_the_replica_does_not_number_are_numbered() -> None:
    raw = [named("response.vendor", a=1), named("response.vendor", sequence_number=7)]
    told = [facts.relay for facts in read(b"".join([*raw, raw[0]]))]
    assert [json.loads(data.partition(b"data: ")[2])["sequence_number"] for data in told] == [
        0,
        7,
        8,
    ]
    assert told[1] == raw[1]
    assert unnumbered(told[0]) == unnumbered(told[2]) == raw[0]


def test_the_last_event_reports_usage_and_ends_the_stream() -> None:
    *_, last = read(RAW)
    assert (last.is_done, last.finish_reason, last.usage) == (True, "stop", Usage(7, 4, 2))
    assert last.tokens == USAGE["output_tokens"]
    why = {"reason": "max_output_tokens"}
    *_, cut_off = read(b"".join(closing(end="response.incomplete", incomplete_details=why)))
    assert (cut_off.is_done, cut_off.finish_reason) == (True, "max_output_tokens")
    assert cut_off.commits


@pytest.mark.parametrize("usage", [None, 5, [], {"input_tokens": "x"}, {"output_tokens": -1}])
def test_an_odd_usage_is_not_an_error(usage: Any) -> None:
    *_, last = read(b"".join(closing(usage=usage)))
    assert (last.error, last.usage, last.is_done) == (None, None, True)


def test_cached_tokens_never_exceed_the_prompt() -> None:
    usage = {**USAGE, "input_tokens_details": {"cached_tokens": 10**9}}
    assert read(b"".join(closing(usage=usage)))[-1].usage == Usage(7, 7, 2)


def test_tokens_follow_the_replicas_own_count() -> None:
    raw = b"".join(text_delta("x", timings={"predicted_n": n}) for n in (1, 3, 8))
    assert [facts.tokens for facts in read(raw)] == [1, 3, 8]


def test_nothing_after_the_end_is_relayed() -> None:
    raw = RAW + b"data: [DONE]\n\n" + named("error", message="boom")
    assert b"".join(facts.relay for facts in read(raw)) == RAW


def test_a_stream_without_its_end_is_not_complete() -> None:
    """Row 43"""
    reader, splitter = RESPONSES.reader(parsed(), Rewrite("up")), SseSplitter()
    for frame in splitter.feed(b"".join(WHOLE[:-1])):
        reader.facts(frame)
    assert not reader.is_complete()
    assert not reader.is_complete(needs_done=False)
    *_, done = read(b"".join(WHOLE[:-1]) + b"data: [DONE]\n\n")
    assert done.error is not None
    assert done.error.reason is Reason.UPSTREAM_INCOMPLETE


FAILED = {"code": "server_error", "message": "boom"}
HIDDEN: dict[str, bytes] = {
    "error event": named("error", code="server_error", message="boom", param=None),
    "nested error": named("error", error={"message": "boom"}),
    "error object": b'data: {"error":{"message":"boom","code":500}}\n\n',
    "error event of llama.cpp": b'event: error\ndata: {"code":500,"message":"boom"}\n\n',
    "error event without data": b"event: error\n\n",
    "object error": b'data: {"object":"error","message":"boom"}\n\n',
    "bare error": b'data: {"message":"boom","type":"server_error"}\n\n',
    "failed": named("response.failed", response=response("failed", error=FAILED)),
    "failed without an error": named("response.failed"),
    "failed of odd types": named("response.failed", response={"error": "boom", "status": 5}),
    "completed as failed": named("response.completed", response=response("failed", error=FAILED)),
    "cancelled": named("response.cancelled", response=response("cancelled")),
    "completed without a response": named("response.completed"),
    "completed with another response": named("response.completed", response="boom"),
    "html": b"<!DOCTYPE html>\n<html>boom</html>\n\n",
    "broken json": b'event: response.created\ndata: {"type":\n\n',
    "no object": b"data: [1]\n\n",
    "bad UTF-8": b'data: {"type":"response.output_text.delta","delta":"\xff"}\n\n',
    "nested too deep": b'data: {"response":' + b"[" * 3000 + b"\n\n",
}


@pytest.mark.parametrize("raw", HIDDEN.values(), ids=HIDDEN)
def test_a_failure_inside_a_200_is_found_and_not_relayed(raw: bytes) -> None:
    """G13, rows 44 and 48"""
    (facts,) = read(raw)
    assert isinstance(facts.error, UpstreamError)
    assert (facts.error.reason, facts.error.status) == (Reason.UPSTREAM_ERROR, 502)
    assert (facts.relay, facts.commits, facts.is_done) == (b"", False, False)
    assert "boom" not in facts.error.message


@pytest.mark.parametrize("code", ["rate_limit_exceeded", "server_is_overloaded", "503"])
def test_an_overload_is_a_hint_that_the_replica_is_full(code: str) -> None:
    (facts,) = read(named("error", code=code, message="busy"))
    assert isinstance(facts.error, ReplicaFull)


@pytest.mark.parametrize("code", ["invalid_prompt", "context_length_exceeded", 400])
def test_a_refusal_blames_nobody_and_is_told(code: Any) -> None:
    error = {"code": code, "message": "The prompt is too long."}
    for raw in (
        named("error", **error),
        named("error", error=error),
        named("response.failed", response=response("failed", error=error)),
    ):
        (facts,) = read(raw)
        assert facts.error is not None
        assert facts.error.reason is Reason.UPSTREAM_REFUSED
        assert not facts.error.blames_replica
        told = json.loads(RESPONSES.error_body(facts.error, "id"))["error"]
        assert told["message"] == "The prompt is too long."


def test_events_are_numbered_on_as_the_replica_numbers_them() -> None:
    assert [facts.next_event for facts in read(RAW)] == list(range(1, len(WHOLE) + 1))
    started_late = b"".join([*opening(5), text_delta("x", 9)])
    assert read(started_late)[-1].next_event == 10


def test_events_without_numbers_are_counted() -> None:
    raw = b"".join([*opening(None), b": ping\n\n", text_delta("x")])
    assert read(raw)[-1].next_event == 5
    odd = text_delta("x").replace(b'"delta": "x"', b'"delta": "x", "sequence_number": "many"')
    assert read(odd)[-1].next_event == 1


@pytest.mark.parametrize(
    "error",
    [
        UpstreamError(Reason.UPSTREAM_INCOMPLETE),
        Rejected(Reason.INVALID_REQUEST, "Ünwahr.", param="input"),
        CallError(Reason.INTERNAL),
    ],
)
def test_the_error_event_is_the_apis_own(error: CallError) -> None:
    raw = RESPONSES.error_event(error, "id", next_event=17)
    (frame,) = SseSplitter().feed(raw)
    assert frame.event == "error"
    event = json.loads(frame.data or b"")
    assert set(event) == {"type", "code", "message", "param", "sequence_number"}
    read_by_client = ResponseErrorEvent.model_validate(event)
    assert (read_by_client.code, read_by_client.sequence_number) == (str(error.reason), 17)
    assert read_by_client.param == error.param


def aggregate(raw: bytes, **result: Any) -> bytes:
    aggregator, splitter = RESPONSES.aggregator(parsed()), SseSplitter()
    for frame in splitter.feed(raw) + splitter.finish():
        aggregator.feed(frame)
    return aggregator.result(**result)


def test_without_a_stream_the_answer_is_the_response_of_the_last_event() -> None:
    answer = aggregate(RAW)
    assert json.loads(answer) == response()
    assert answer in RAW
    cut_off = b"".join(closing(end="response.incomplete"))
    assert json.loads(aggregate(cut_off))["status"] == "incomplete"


def test_a_text_that_names_the_last_event_is_not_it() -> None:
    trap = text_delta('"type":"response.completed" response.incomplete')
    assert json.loads(aggregate(trap + RAW)) == response()


def test_the_tier_served_is_told_to_those_who_asked() -> None:
    assert json.loads(aggregate(RAW, service_tier="flex")) == response(service_tier="flex")
    assert "service_tier" not in json.loads(aggregate(RAW))


PIECES = [
    *WHOLE,
    *HIDDEN.values(),
    *(named(kind, delta="x") for kind in DELTAS.values()),
    named("response.output_text.delta", delta=["x"], timings=5, sequence_number=-1),
    named("response.completed", response={"usage": {"input_tokens": 10**30}, "output": None}),
    b'data: {"type":"response.completed","response":{"z":"\\ud800"}}\n\n',
    b'data: {"type":"response.completed","response":{"z":"\xff"}}\n\n',
    b'data: {"type":"response.completed","response":{"z":' + b"[" * 900 + b"]" * 900 + b"}}\n\n",
    b"data: \x00\n\n",
    b"\xef\xbb\xbf",
    b"data: {\n",
    b"\r\n",
    b"event: error\n",
]


def test_ten_thousand_generated_streams_never_raise_unhandled() -> None:
    """G9, row 44: arbitrary events, mutated and cut; only UpstreamError leaves the aggregator."""
    rng = random.Random(45)
    for _ in range(10_000):
        raw = bytearray(b"".join(rng.choices(PIECES, k=rng.randint(1, 6))))
        for _ in range(rng.randint(0, 2)):
            raw[rng.randrange(len(raw))] = rng.randrange(256)
        splitter = SseSplitter()
        whole = bytes(raw[: rng.randint(1, len(raw))])
        at = rng.randint(0, len(whole))
        _read_all(splitter.feed(whole[:at]) + splitter.feed(whole[at:]) + splitter.finish())


def unnumbered(relay: bytes) -> bytes:
    names = b"sequence_number", b"output_index", b"content_index"
    for name in names:  # in that order, right behind each other
        relay = re.sub(rb'data: ?\{"%b":\d+,' % name, b"data: {", relay, count=1)
    return relay


def _read_all(found: list[Frame]) -> None:
    reader, aggregator = RESPONSES.reader(parsed(), Rewrite("m")), RESPONSES.aggregator(parsed())
    for frame in found:
        facts = reader.facts(frame)
        assert facts.relay in (b"", frame.raw) or unnumbered(facts.relay) == frame.raw
        assert facts.relay == b"" or facts.error is None
        if facts.error is not None:
            assert not facts.commits
            return
        try:
            aggregator.feed(frame)
        except UpstreamError:
            return
    if reader.is_complete():
        for tier in (None, "flex"):
            assert isinstance(json.loads(aggregator.result(service_tier=tier)), dict)
