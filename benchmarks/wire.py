"""What does the wire cost per streamed event and per request body? Run: python -m benchmarks.wire

Prints microseconds of this machine and, since machines differ, the ratio to decoding the same event
with the standard library's JSON.
"""

from __future__ import annotations

import json
import timeit
from collections.abc import Callable
from functools import partial
from typing import Any

from gateway.wire import DIALECTS
from gateway.wire.answers.sse import SseSplitter
from gateway.wire.dialect import BodyBounds, Rewrite

CHAT = DIALECTS["/v1/chat/completions"]
EVENT: dict[str, Any] = {
    "id": "chatcmpl-0123456789abcdef",
    "object": "chat.completion.chunk",
    "created": 1_700_000_000,
    "model": "llama-3.1-8b",
    "choices": [
        {"index": 0, "delta": {"content": " word"}, "logprobs": None, "finish_reason": None}
    ],
}
TIMINGS = {"cache_n": 5, "prompt_n": 10, "predicted_n": 7, "predicted_ms": 12.5}
USAGE = {"prompt_tokens": 15, "completion_tokens": 7, "total_tokens": 22}


def as_frame(event: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(event, separators=(",", ":")).encode() + b"\n\n"


def cost_us(act: Callable[[], object], number: int = 20_000) -> float:
    """The best of five rounds."""
    return min(timeit.repeat(act, number=number, repeat=5)) / number * 1e6


def body_of(messages: int, text_bytes: int) -> bytes:
    message = {"role": "user", "content": "word " * (text_bytes // 5)}
    return json.dumps({"model": "m", "messages": [message] * messages}).encode()


def report(name: str, cost: float, unit: float) -> None:
    print(f"{name:<52} {cost:>10.2f} us {cost / unit:>8.2f} x")


def main() -> None:
    raw = as_frame(EVENT)
    splitter = SseSplitter()
    frame = splitter.feed(raw)[0]
    unit = cost_us(lambda: json.loads(frame.data or b""))
    report("json.loads of one content event (the unit)", unit, unit)
    report("split, one event per read", cost_us(lambda: splitter.feed(raw)), unit)
    report(
        "split, 50 events per read, each", cost_us(lambda: splitter.feed(raw * 50), 500) / 50, unit
    )
    parsed = CHAT.parse(body_of(1, 100), BodyBounds())
    reader = CHAT.reader(parsed, Rewrite("m"))
    for name, event in (
        ("plain", EVENT),
        ("with timings", {**EVENT, "timings": TIMINGS}),
        ("with running usage", {**EVENT, "usage": USAGE}),
    ):
        found = SseSplitter().feed(as_frame(event))[0]
        report(f"facts of a content event, {name}", cost_us(partial(reader.facts, found)), unit)
    again = CHAT.reader(parsed, Rewrite("m"))
    again.facts(frame)
    report("an event that repeats the last one", cost_us(lambda: again.repeats((raw,))), unit)
    aggregator = CHAT.aggregator(parsed)
    report("aggregate a content event", cost_us(lambda: aggregator.feed(frame)), unit)
    for messages, size in ((2, 200), (40, 1_000), (1, 1_000_000), (10_000, 60)):
        request = body_of(messages, size)
        known = CHAT.parse(request, BodyBounds())
        rounds = max(3, 2_000_000 // len(request) // 10)
        title = f"{messages} messages of {size} bytes"
        parse = partial(CHAT.parse, request, BodyBounds())
        render = partial(CHAT.upstream_body, known, Rewrite("up", max_tokens_if_absent=256))
        report(f"parse {title}", cost_us(parse, rounds), unit)
        report(f"upstream body of {title}", cost_us(render, rounds), unit)


if __name__ == "__main__":
    main()
