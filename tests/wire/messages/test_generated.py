"""Generated streams of the Messages API: whatever comes, in whatever pieces, is understood or told
as the replica's failure, the same for every slicing.
"""

import json
import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core.errors import Rejected, UpstreamError
from gateway.wire.answers.sse import SseSplitter
from gateway.wire.dialect import BodyBounds, Frame, FrameFacts, Rewrite
from gateway.wire.prompt.canonical import canonical_prompt
from tests.wire.messages.streams import (
    COUNT_TOKENS,
    HELLO,
    MESSAGES,
    STOP,
    block,
    delta,
    ended,
    event,
    parsed,
    started,
)
from tests.wire.messages.test_reader import CONTENT, HIDDEN, SILENT

BODY = parsed()
TEXTS = st.text(min_size=1, max_size=12)
NAMES = st.sampled_from(
    [
        *("type", "text", "role", "content", "source", "input", "name", "id", "thinking", "tools"),
        *("system", "messages", "tool_choice", "metadata", "cache_control", "max_tokens", "data"),
        *("tool_use_id", "stop_sequences", "output_config", "format", "service_tier", "vendor"),
    ]
)
BLOCKS = st.lists(
    st.one_of(
        st.tuples(st.just("text"), st.lists(TEXTS, max_size=4)),
        st.tuples(st.just("thinking"), st.lists(TEXTS, max_size=4)),
        st.tuples(st.just("tool_use"), st.dictionaries(TEXTS, st.integers() | TEXTS, max_size=3)),
    ),
    max_size=4,
)
PIECES: list[bytes] = [
    *CONTENT.values(),
    *SILENT.values(),
    *HIDDEN.values(),
    ended(),
    ended(None),
    STOP,
    event("message_delta", delta=None, usage=None),
    event("message_start", message={"usage": {"input_tokens": 10**30}}),
    event("content_block_start", index=10**30, content_block={"type": ["a"], "text": {"a": 1}}),
    b'data: {"type":"content_block_delta","delta":' + b"[" * 2000 + b"\n\n",
    b'data: {"type":"ping","x":' + b"[" * 900 + b"]" * 900 + b"}\n\n",
    b"data: \x00\n\n",
    b"\xef\xbb\xbf",
    b"data: {\n",
    b"\r\n",
    b"event: error\n",
]


def _events(blocks: list[tuple[str, object]], cuts: random.Random) -> list[bytes]:
    """A right stream of these blocks; the JSON of a tool's input is cut anywhere."""
    events = [started()]
    for index, (kind, said) in enumerate(blocks):
        if kind == "tool_use":
            events.append(block(kind, index, id=f"t{index}", name="f", input={}))
            text = json.dumps(said)
            at = cuts.randint(0, len(text))
            for piece in (text[:at], text[at:]):
                events.append(delta("input_json_delta", index, partial_json=piece))
        else:
            events.append(block(kind, index, **{kind: ""}))
            assert isinstance(said, list)
            events += [delta(f"{kind}_delta", index, **{kind: text}) for text in said]
        events.append(event("content_block_stop", index=index))
        if cuts.random() < 0.3:
            events.append(event("ping"))
    return [*events, ended(), STOP]


def _wanted(kind: str, said: object) -> object:
    return said if kind == "tool_use" else "".join(said if isinstance(said, list) else ())


@settings(max_examples=1_250, deadline=None)
@given(BLOCKS, st.randoms(use_true_random=False), st.sampled_from(["\n", "\r\n", "\r"]))
def test_right_streams_become_their_message_for_every_slicing(
    blocks: list[tuple[str, object]], cuts: random.Random, line_end: str
) -> None:
    """G9, G11"""
    raw = b"".join(_events(blocks, cuts)).replace(b"\n", line_end.encode())
    reader, aggregator = MESSAGES.reader(BODY, Rewrite("m")), MESSAGES.aggregator(BODY)
    relayed = b""
    for frame in _sliced(raw, cuts):
        facts = reader.facts(frame)
        assert facts.error is None
        relayed += facts.relay
        aggregator.feed(frame)
    assert relayed.rstrip() == raw.rstrip()
    assert reader.is_complete()
    told = json.loads(aggregator.result())
    names = {"tool_use": "input"}
    assert [each[names.get(each["type"], each["type"])] for each in told["content"]] == [
        _wanted(kind, said) for kind, said in blocks
    ]


@settings(max_examples=1_250, deadline=None)
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_arbitrary_streams_never_raise_unhandled(pieces: list[bytes], cuts: random.Random) -> None:
    """Row 44: mutated and cut; the meaning does not depend on the slicing."""
    raw = bytearray(b"".join(pieces))
    for _ in range(cuts.randint(0, 2)):
        raw[cuts.randrange(len(raw))] = cuts.randrange(256)
    whole = bytes(raw[: cuts.randint(1, len(raw))])
    splitter = SseSplitter()
    first = _understood([*splitter.feed(whole), *splitter.finish()])
    second = _understood(_sliced(whole, cuts))
    assert [_meaning(each) for each in first] == [_meaning(each) for each in second]


def _understood(found: list[Frame]) -> list[FrameFacts]:
    """Until the first error, as an attempt reads."""
    reader, aggregator = MESSAGES.reader(BODY, Rewrite("m")), MESSAGES.aggregator(BODY)
    understood: list[FrameFacts] = []
    for frame in found:
        facts = reader.facts(frame)
        understood.append(facts)
        assert facts.relay == b"" or facts.error is None
        if facts.error is not None:
            break
        try:
            aggregator.feed(frame)
        except UpstreamError:
            break
    json.loads(aggregator.result())
    return understood


def _meaning(facts: FrameFacts) -> tuple[object, ...]:
    reason = facts.error.reason if facts.error else None
    return facts.has_content, facts.finish_reason, facts.usage, facts.tokens, facts.is_done, reason


def _sliced(raw: bytes, cuts: random.Random) -> list[Frame]:
    splitter = SseSplitter()
    found: list[Frame] = []
    at = 0
    while at < len(raw):
        size = cuts.randint(1, 40)
        found += splitter.feed(raw[at : at + size])
        at += size
    return [*found, *splitter.finish()]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=500, deadline=None)
@given(st.dictionaries(NAMES, JSON, max_size=5), st.lists(JSON, max_size=3))
def test_arbitrary_requests_are_read_or_refused(fields: dict[str, object], said: list[Any]) -> None:
    messages = [{"role": "user", "content": content} for content in said]
    raw = json.dumps({**HELLO, "messages": messages or HELLO["messages"], **fields}).encode()
    for dialect in (MESSAGES, COUNT_TOKENS):
        try:
            body = dialect.parse(raw, BodyBounds())
        except Rejected:
            continue
        assert body.prompt_bytes >= 0
        assert json.loads(MESSAGES.upstream_body(body, Rewrite("m")))["stream"] is True
        assert canonical_prompt(body.body).text
