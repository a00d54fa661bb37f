"""Events that differ from the last one in their text alone are not read in full. Nobody notices."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from gateway.wire.answers import only_text
from gateway.wire.chat.dialect import CHAT, COMPLETIONS, OpenAiDialect
from gateway.wire.dialect import BodyBounds, Frame, FrameFacts, Rewrite

STREAMS = 400
TEXTS = ["a", "word ", '"', "\\", "\u00fc", "\u2028", "\n", "", "0", '"content":"x"', "bench", "{}"]
RAW_TEXTS = [
    b'"\\u00fc"',
    b'"\\/"',
    b'"\\ud83d\\ude00"',
    b'"\\ud800"',
    b'"\\x"',
    b'"a',
    b'a","b":"c"',
]
TEXT = "?"  # its place in a shape
CHOICES: list[dict[str, Any]] = [
    {"index": 0, "delta": {"content": TEXT}, "finish_reason": None},
    {"index": 1, "delta": {"content": TEXT}},
    {"index": 0, "delta": {"role": "assistant", "content": TEXT}, "logprobs": None},
    {"index": 0, "delta": {"reasoning_content": TEXT}},
    {"index": 0, "delta": {"reasoning_content": TEXT, "content": ""}},
    {"index": 0, "delta": {"content": TEXT, "vendor": "abc"}},
    {"index": 0, "delta": {"content": TEXT}, "echo": {"content": TEXT}},
    {"index": 0, "delta": {"content": "x"}, "echo": {"content": TEXT}},
    {"index": 0, "delta": {"content": "x"}, "text": TEXT},
    {"index": 0, "delta": {"content": TEXT}, "logprobs": {"content": [1]}},
    {"index": 0, "delta": {"content": TEXT, "tool_calls": [{"index": 0, "id": "c"}]}},
    {"index": 0, "delta": {"content": TEXT}, "finish_reason": "stop"},
    {"index": 0, "text": TEXT},
    {"index": 0, "text": TEXT, "logprobs": {"tokens": ["a"]}},
]
TOPS: list[dict[str, Any]] = [
    {"id": "1"},
    {"id": "2", "object": "chat.completion.chunk", "model": "bench"},
    {"id": "1", "object": "error"},
    {"timings": {"predicted_n": 3}},
    {"usage": {"prompt_tokens": 1, "completion_tokens": 2}},
    {"usage": None, "vendor": {"content": TEXT}},
    {"error": {"message": TEXT}},
    {"prompt_progress": {"total": 1}},
]


def framed(data: bytes, head: bytes = b"data: ", end: bytes = b"\n\n") -> Frame:
    return Frame(head + data + end, data)


def event(rng: random.Random, top: dict[str, Any], choice: dict[str, Any]) -> bytes:
    """With some text in each place of the shape."""
    shape = msgspec.json.encode({**top, "choices": [choice] * rng.choice((1, 1, 1, 1, 2))})
    for _ in range(shape.count(b'"?"')):
        known = msgspec.json.encode(rng.choice(TEXTS))
        text = rng.choice([b"null", rng.choice(RAW_TEXTS)]) if rng.random() < 0.1 else known
        shape = shape.replace(b'"?"', text, 1)
    return shape


def stream(rng: random.Random) -> list[bytes]:
    """Runs of events of one shape, with others between."""
    events: list[bytes] = []
    for _ in range(rng.randint(1, 5)):
        top = rng.choice(TOPS) if rng.random() < 0.3 else TOPS[0]
        choice = rng.choice(CHOICES)
        events += [event(rng, top, choice) for _ in range(rng.randint(1, 6))]
        events += [b"[DONE]"] * (rng.random() < 0.05)
    return events


def told(
    dialect: OpenAiDialect, events: list[bytes]
) -> tuple[list[tuple[FrameFacts, str]], bytes | None]:
    """Facts up to the first error, and the answer of what came before it. Of an event that repeats
    the last one they are what that one's were, with one token more."""
    parsed = dialect.parse(msgspec.json.encode(ASKED[dialect.endpoint]), BodyBounds())
    reader, aggregator = dialect.reader(parsed, Rewrite("m")), dialect.aggregator(parsed)
    all_facts: list[tuple[FrameFacts, str]] = []
    for data in events:
        frame = framed(data)
        if texts := reader.repeats((frame.raw,)):
            last = all_facts[-1][0]
            assert last.has_content
            again = msgspec.structs.replace(last, relay=frame.raw, tokens=reader.tokens)
            all_facts.append((again, ""))
            if not aggregator.repeat(texts, len(frame.raw)):
                aggregator.feed(frame)
            continue
        facts = reader.facts(frame)
        wrong = f"{facts.error!r} {facts.error.message}" if facts.error else ""
        all_facts.append((msgspec.structs.replace(facts, error=None), wrong))
        if wrong:
            break
        aggregator.feed(frame)
    return all_facts, aggregator.result()


ASKED: dict[str, dict[str, Any]] = {
    "chat/completions": {"model": "m", "messages": [{"role": "user", "content": "x"}], "n": 2},
    "completions": {"model": "m", "prompt": "x", "n": 2},
}


@pytest.mark.parametrize("dialect", [CHAT, COMPLETIONS], ids=lambda dialect: dialect.endpoint)
def test_every_stream_means_what_it_means_when_all_of_it_is_read(
    monkeypatch: pytest.MonkeyPatch, dialect: OpenAiDialect
) -> None:
    rng = random.Random(11)
    streams = [stream(rng) for _ in range(STREAMS)]
    short = [told(dialect, events) for events in streams]
    monkeypatch.setattr(only_text, "MOST_TRIES", 0)
    for events, one in zip(streams, short, strict=True):
        assert one == told(dialect, events), events


def test_long_answer_is_hardly_read() -> None:
    """Of a thousand events two are: the first, and the one that proves what it is."""
    read: list[bytes] = []

    def text_in(data: bytes) -> str:
        read.append(data)
        found: str = msgspec.json.decode(data)["text"]
        return found

    only = only_text.OnlyText(text_in)
    only.keep(framed(b'{"text":"a"}'), "a")
    texts = only.texts([framed(b'{"text":"t%d"}' % number).raw for number in range(1_000)])
    assert texts == [f"t{number}" for number in range(1_000)]
    assert len(read) == 1


def test_like_looking_text_is_not_taken_for_the_text() -> None:
    only = only_text.OnlyText(lambda data: msgspec.json.decode(data)["text"])
    only.keep(framed(b'{"text" : "\\u0061","echo":"a"}'), "a")
    assert only.texts([framed(b'{"text" : "\\u0061","echo":"b"}').raw]) == []


TEXT_IN_EVENT = b'{"text":"a"}'
NO_REPETITION = {
    "another event behind it": b'data: {"text":"b"}\n\ndata: {"text":"c"}\n\n',
    "only its beginning": b'data: {"text":"b',
    "without its end": b'data: {"text":"b"}\n',
    "another line before": b'id: 1\ndata: {"text":"b"}\n\n',
    "a line end in the text": b'data: {"text":"b\n"}\n\n',
    "a line end behind the text": b'data: {"text":"b"\n}\n\n',
    "no text": b'data: {"text":""}\n\n',
    "no literal": b'data: {"text":"}\n\n',
    "two literals": b'data: {"text":"a","b":"c"}\n\n',
    "wrong UTF-8": b'data: {"text":"\xff"}\n\n',
}


@pytest.mark.parametrize("name", NO_REPETITION)
def test_what_is_not_one_whole_event_with_another_text_is_read(name: str) -> None:
    only = only_text.OnlyText(lambda data: msgspec.json.decode(data)["text"])
    only.keep(framed(TEXT_IN_EVENT), "a")
    assert only.texts([framed(b'{"text":"b"}').raw, NO_REPETITION[name]]) == ["b"]


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n"])
@pytest.mark.parametrize("head", [b"data: ", b"data:", b"event: said\ndata: "])
def test_every_plain_form_of_an_event_is_known_again(head: bytes, end: bytes) -> None:
    only = only_text.OnlyText(lambda data: msgspec.json.decode(data)["text"])
    only.keep(framed(TEXT_IN_EVENT, head, end), "a")
    assert only.texts([framed(b'{"text":"b"}', head, end).raw]) == ["b"]


@pytest.mark.parametrize("head", [b"\xef\xbb\xbfdata: ", b"\ndata: ", b": hi\ndata: "])
def test_odd_form_of_an_event_is_always_read(head: bytes) -> None:
    """The mark of a byte order counts only at the very beginning."""
    only = only_text.OnlyText(lambda data: msgspec.json.decode(data)["text"])
    only.keep(framed(TEXT_IN_EVENT, head), "a")
    assert only.texts([framed(b'{"text":"b"}', head).raw]) == []


def test_events_that_always_differ_are_not_probed_for_ever() -> None:
    probes: list[bytes] = []

    def text_in(data: bytes) -> str:
        probes.append(data)
        return only_text.PROBE

    only = only_text.OnlyText(text_in)
    for number in range(100):
        only.keep(framed(b'{"n":%d,"text":"a"}' % number), "a")
        assert only.texts([framed(b'{"n":%d,"text":"a"}' % (number + 1)).raw]) == []
    assert len(probes) == only_text.MOST_TRIES
