from typing import Any

import pytest

from gateway.core.dispatch.effects import Usage
from gateway.core.errors import ReplicaFull, UpstreamError
from gateway.core.reasons import Reason
from gateway.wire.answers.sse import SseSplitter
from gateway.wire.dialect import Rewrite
from tests.wire.chat.streams import frames
from tests.wire.messages.streams import (
    MESSAGES,
    PING,
    STOP,
    WHOLE,
    block,
    closed,
    delta,
    ended,
    event,
    parsed,
    read,
    started,
)

CONTENT = {
    "text": delta(text="x"),
    "thinking": delta("thinking_delta", thinking="x"),
    "tool input": delta("input_json_delta", partial_json='{"a'),
    "beginning of a tool call": block("tool_use", id="t", name="f", input={}),
    "block that begins with text": block(text="x"),
    "hidden thinking": block("redacted_thinking", data="AAAA"),
}
SILENT = {
    "message_start": started(),
    "empty block": block(),
    "empty text": delta(text=""),
    "empty thinking": delta("thinking_delta", thinking=""),
    "empty tool input": delta("input_json_delta", partial_json=""),
    "signature": delta("signature_delta", signature="AAAA"),
    "citation": delta("citations_delta", citation={"cited_text": "x"}),
    "block stop": closed(),
    "ping": PING,
    "comment": b": ping\n\n",
    "event without data": b"event: ping\n\n",
    "empty data": b"event: ping\ndata:\n\n",
    "event of the future": event("content_block_wave", index=0),
    "type only in the name": b"event: ping\ndata: {}\n\n",
    "null error": b'data: {"type":"ping","error":null}\n\n',
}


@pytest.mark.parametrize("raw", CONTENT.values(), ids=CONTENT)
def test_each_kind_of_content_commits_the_stream(raw: bytes) -> None:
    (facts,) = read(raw)
    assert facts.has_content
    assert facts.commits
    assert facts.tokens == 1
    assert facts.relay == raw
    assert facts.is_reasoning_only == (b"thinking" in raw)


@pytest.mark.parametrize("raw", SILENT.values(), ids=SILENT)
def test_what_says_nothing_does_not_commit(raw: bytes) -> None:
    """R30"""
    (facts,) = read(raw)
    assert not facts.commits
    assert facts.error is None
    assert facts.tokens == 0
    assert facts.relay == raw


def test_a_ping_says_nothing_of_the_work() -> None:
    assert [facts.acknowledges for facts in read(started(), PING, block())] == [False, True, False]


def test_every_byte_is_relayed() -> None:
    """G11: also usage, which every caller of this API gets."""
    assert b"".join(facts.relay for facts in read(WHOLE)) == WHOLE


def test_every_slicing_of_a_stream_reads_the_same() -> None:
    """G9, row 44"""
    whole = read(WHOLE)
    for raw in (WHOLE, WHOLE.replace(b"\n", b"\r\n"), WHOLE.replace(b"\n", b"\r")):
        expected = [facts.usage for facts in whole]
        for cut in range(1, len(raw)):
            splitter, reader = SseSplitter(), MESSAGES.reader(parsed(), Rewrite("m"))
            found = [*splitter.feed(raw[:cut]), *splitter.feed(raw[cut:]), *splitter.finish()]
            facts = [reader.facts(frame) for frame in found]
            assert b"".join(each.relay for each in facts).startswith(raw.rstrip())
            assert [each.usage for each in facts][: len(expected)] == expected
            assert [each.has_content for each in facts].count(True) == 2
            assert reader.is_complete()


def test_stream_byte_by_byte_reads_the_same() -> None:
    splitter, reader = SseSplitter(), MESSAGES.reader(parsed(), Rewrite("m"))
    found = [frame for at in range(len(WHOLE)) for frame in splitter.feed(WHOLE[at : at + 1])]
    assert [reader.facts(frame) for frame in found] == read(WHOLE)
    assert reader.finish_reason == "end_turn"


@pytest.mark.parametrize(
    "said",
    [
        [delta(text="x"), delta(text="yz"), delta(text='"\n')],
        [delta("thinking_delta", thinking="x"), delta("thinking_delta", thinking="y")],
        [delta("input_json_delta", partial_json=text) for text in ('{"a', '":', "1}")],
    ],
    ids=["text", "thinking", "tool input"],
)
def test_deltas_that_differ_in_their_text_alone_are_read_once(said: list[bytes]) -> None:
    """The meter and the end are those of a stream of which all is read."""
    raw = [started(), block(), *said, *said, delta(text=""), closed(), *said, ended(), STOP]
    short, full = (MESSAGES.reader(parsed(), Rewrite("m")) for _ in range(2))
    repeated = 0
    for event_bytes in raw:
        (frame,) = frames(event_bytes)
        facts = full.facts(frame)
        if short.repeats((event_bytes,)):
            repeated += 1
            assert facts.has_content
            assert facts.relay == event_bytes
        else:
            assert short.facts(frame) == facts
        assert short.tokens == full.tokens
    assert repeated == 3 * len(said) - 2
    assert short.is_complete()


def test_input_of_the_gateway_is_the_whole_prompt() -> None:
    """input_tokens excludes what was cached; what was written into a cache was computed."""
    (*_, last) = read(
        started(
            input_tokens=3,
            cache_read_input_tokens=40,
            cache_creation_input_tokens=500,
            output_tokens=1,
        ),
        ended(output_tokens=7),
    )
    assert last.usage == Usage(543, 40, 7)
    assert last.tokens == 7


@pytest.mark.parametrize(
    ("first", "last", "wanted"),
    [
        ({"input_tokens": 0}, {"input_tokens": 9, "cache_read_input_tokens": None}, (9, 0)),
        ({"input_tokens": 3, "cache_read_input_tokens": 4}, {}, (7, 4)),
        ({"input_tokens": 3, "cache_read_input_tokens": 4}, {"input_tokens": 3}, (7, 4)),
        ({"input_tokens": 7}, {"input_tokens": 3, "cache_read_input_tokens": 4}, (7, 4)),
        ({"input_tokens": 3, "cache_read_input_tokens": 4}, {"input_tokens": 7}, (7, 0)),
        ({"input_tokens": 3}, {"cache_creation_input_tokens": 4}, (7, 0)),
    ],
)
def test_usage_is_put_together_from_both_ends(
    first: dict[str, Any], last: dict[str, Any], wanted: tuple[int, int]
) -> None:
    """Servers report the prompt at the beginning, at the end, or at both."""
    facts = read(started(**first), ended(None, output_tokens=5), ended(output_tokens=6, **last))
    assert [each.usage for each in facts] == [None, None, Usage(*wanted, 6)]


def test_usage_is_not_told_before_it_is_final() -> None:
    """A call that is cut owes what it received, not the zero of its beginning."""
    assert [each.usage for each in read(started(), delta(text="x"))] == [None, None]


@pytest.mark.parametrize("usage", [{"output_tokens": -5}, {"output_tokens": "many"}, {"x": 1}])
def test_nonsense_in_usage_is_no_error(usage: dict[str, Any]) -> None:
    facts = read(started(), delta(text="x"), ended(**usage))
    assert facts[-1].error is None
    assert facts[-1].usage is not None
    assert facts[-1].usage.input_tokens == 7
    assert facts[-1].usage.output_tokens >= 0


def test_message_stop_ends_the_stream() -> None:
    facts = read(WHOLE, b"data: [DONE]\n\n", delta(text="late"))
    assert [each.is_done for each in facts].count(True) == 1
    assert facts[-1].relay == facts[-2].relay == b""
    assert not facts[-1].has_content


@pytest.mark.parametrize(
    "reason", ["end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal"]
)
def test_stop_reason_finishes_the_answer(reason: str) -> None:
    reader = MESSAGES.reader(parsed(), Rewrite("m"))
    facts = [reader.facts(frame) for frame in frames(started() + ended(reason))]
    assert facts[-1].commits
    assert not facts[-1].has_content
    assert (reader.finish_reason, reader.is_complete()) == (reason, False)
    assert reader.is_complete(needs_done=False)


def test_message_stop_without_a_reason_is_incomplete() -> None:
    """G12, row 43"""
    *_, last = read(started(), delta(text="x"), STOP)
    assert last.error is not None
    assert last.error.reason is Reason.UPSTREAM_INCOMPLETE
    assert (last.relay, last.is_done) == (b"", False)


def test_stream_that_just_ends_is_not_complete() -> None:
    """G12"""
    reader = MESSAGES.reader(parsed(), Rewrite("m"))
    for frame in frames(WHOLE.removesuffix(STOP)):
        reader.facts(frame)
    assert not reader.is_complete()


HIDDEN = {
    "error event": event("error", error={"type": "api_error", "message": "boom"}),
    "error without a name": b'data: {"type":"error","error":{"message":"boom"}}\n\n',
    "error in another event": b'event: ping\ndata: {"type":"ping","error":"boom"}\n\n',
    "error event with text": b"event: error\ndata: boom\n\n",
    "error event without data": b"event: error\n\n",
    "error of llama.cpp": b'event: error\ndata: {"error":{"code":500,"message":"boom"}}\n\n',
    "marker of another dialect": b"data: [DONE]\n\n",
    "html": b"<!DOCTYPE html>\n<html>boom</html>\n\n",
    "json that is no event": b'{"error":{"message":"boom"}}',
    "broken json": b'event: ping\ndata: {"type":\n\n',
    "no object": b"event: ping\ndata: [1,2]\n\n",
    "bad UTF-8": b'event: ping\ndata: {"type":"ping\xff"}\n\n',
}


@pytest.mark.parametrize("raw", HIDDEN.values(), ids=HIDDEN)
def test_error_inside_a_200_is_found_and_not_relayed(raw: bytes) -> None:
    """G13, rows 44 and 48"""
    (facts,) = read(raw)
    assert isinstance(facts.error, UpstreamError)
    assert (facts.error.reason, facts.error.status) == (Reason.UPSTREAM_ERROR, 502)
    assert facts.relay == b""
    assert not facts.commits
    assert "boom" not in facts.error.message


@pytest.mark.parametrize("kind", ["overloaded_error", "rate_limit_error"])
def test_overload_inside_a_200_is_a_hint_that_the_replica_is_full(kind: str) -> None:
    (facts,) = read(event("error", error={"type": kind, "message": "busy"}))
    assert isinstance(facts.error, ReplicaFull)


def test_refusal_inside_a_200_blames_nobody() -> None:
    (facts,) = read(event("error", error={"type": "invalid_request_error", "message": "too long"}))
    assert facts.error is not None
    assert (facts.error.reason, facts.error.status) == (Reason.UPSTREAM_REFUSED, 400)
    assert not facts.error.blames_replica
    assert not facts.error.retryable


def test_odd_types_of_known_members_are_not_errors() -> None:
    """G11"""
    odd = event("content_block_delta", index="0", delta={"type": 5, "text": "x", "thinking": []})
    (facts,) = read(odd)
    assert facts.error is None
    assert facts.has_content
    assert facts.relay == odd
    assert (
        read(event("message_start", message=[]), event("message_delta", delta=7))[1].error is None
    )
