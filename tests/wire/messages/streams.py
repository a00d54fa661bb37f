"""Streams of the Messages API as servers send them, for the tests of this package."""

from __future__ import annotations

import json
from typing import Any

from gateway.wire import DIALECTS
from gateway.wire.dialect import BodyBounds, FrameFacts, ParsedBody, Rewrite
from tests.wire.chat.streams import frames

MESSAGES = DIALECTS["/v1/messages"]
COUNT_TOKENS = DIALECTS["/v1/messages/count_tokens"]
HELLO: dict[str, Any] = {
    "model": "m",
    "max_tokens": 9,
    "messages": [{"role": "user", "content": "hi"}],
}
STARTED: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "content": [],
    "model": "m",
    "stop_reason": None,
    "stop_sequence": None,
    "usage": {"input_tokens": 3, "cache_read_input_tokens": 4, "output_tokens": 0},
}


def event(kind: str, **fields: Any) -> bytes:
    data = json.dumps({"type": kind, **fields}, ensure_ascii=False)
    return f"event: {kind}\ndata: {data}\n\n".encode()


def started(**usage: Any) -> bytes:
    return event("message_start", message=STARTED | ({"usage": usage} if usage else {}))


def block(kind: str = "text", index: int = 0, **fields: Any) -> bytes:
    fields = fields or {"text": ""}
    return event("content_block_start", index=index, content_block={"type": kind, **fields})


def delta(kind: str = "text_delta", index: int = 0, **fields: Any) -> bytes:
    return event("content_block_delta", index=index, delta={"type": kind, **fields})


def closed(index: int = 0) -> bytes:
    return event("content_block_stop", index=index)


def ended(reason: str | None = "end_turn", **usage: Any) -> bytes:
    fields = {"stop_reason": reason, "stop_sequence": None}
    return event("message_delta", delta=fields, usage=usage or {"output_tokens": 2})


PING = event("ping")
STOP = event("message_stop")
WHOLE = b"".join(
    (
        started(),
        block(),
        PING,
        delta(text="Grüße "),
        delta(text="世界 🌍"),
        closed(),
        ended(),
        STOP,
    )
)


def parsed(**fields: Any) -> ParsedBody:
    return MESSAGES.parse(json.dumps({**HELLO, **fields}).encode(), BodyBounds())


def read(*raw: bytes) -> list[FrameFacts]:
    reader = MESSAGES.reader(parsed(), Rewrite("m"))
    return [reader.facts(frame) for frame in frames(b"".join(raw))]


def aggregate(*raw: bytes, service_tier: str | None = None) -> Any:
    body = parsed()
    reader, aggregator = MESSAGES.reader(body, Rewrite("m")), MESSAGES.aggregator(body)
    for frame in frames(b"".join(raw)):
        assert reader.facts(frame).error is None
        aggregator.feed(frame)
    assert reader.is_complete()
    return json.loads(aggregator.result(service_tier=service_tier))
