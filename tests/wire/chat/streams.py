"""Streams as servers send them, for the tests of this package."""

from __future__ import annotations

import json
from typing import Any

from gateway.wire import DIALECTS
from gateway.wire.answers.sse import SseSplitter
from gateway.wire.dialect import BodyBounds, Dialect, Frame, FrameFacts, ParsedBody, Rewrite

CHAT = DIALECTS["/v1/chat/completions"]
COMPLETIONS = DIALECTS["/v1/completions"]
HELLO: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
USAGE = {
    "prompt_tokens": 7,
    "completion_tokens": 2,
    "total_tokens": 9,
    "prompt_tokens_details": {"cached_tokens": 4},
}


def chunk(**fields: Any) -> dict[str, Any]:
    head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return {**head, "choices": [], **fields}


def delta(finish_reason: str | None = None, index: int = 0, **fields: Any) -> dict[str, Any]:
    return chunk(choices=[{"index": index, "delta": fields, "finish_reason": finish_reason}])


def event(data: object) -> bytes:
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    return f"data: {text}\n\n".encode()


def stream(*data: object) -> bytes:
    return b"".join(event(item) for item in data)


def frames(raw: bytes) -> list[Frame]:
    splitter = SseSplitter()
    return splitter.feed(raw) + splitter.finish()


def parsed(dialect: Dialect = CHAT, **fields: Any) -> ParsedBody:
    start = HELLO if dialect is CHAT else {"model": "m", "prompt": "hi"}
    return dialect.parse(json.dumps({**start, **fields}).encode(), BodyBounds())


def read(raw: bytes, body: ParsedBody | None = None, **extras: Any) -> list[FrameFacts]:
    reader = CHAT.reader(body or parsed(), Rewrite("m", extras=extras))
    return [reader.facts(frame) for frame in frames(raw)]


def aggregate(raw: bytes, dialect: Dialect = CHAT, **fields: Any) -> Any:
    body = parsed(dialect, **fields)
    reader, aggregator = dialect.reader(body, Rewrite("m")), dialect.aggregator(body)
    for frame in frames(raw):
        assert reader.facts(frame).error is None
        aggregator.feed(frame)
    assert reader.is_complete()
    return json.loads(aggregator.result())


WHOLE = stream(
    delta(role="assistant", content=""),
    delta(content="Grüße "),
    delta(content="世界 🌍"),
    delta("stop"),
    chunk(usage=USAGE),
    "[DONE]",
)
