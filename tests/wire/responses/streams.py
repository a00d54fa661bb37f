"""Responses streams as servers send them, for the tests of this package and of the pipeline."""

from __future__ import annotations

import json
from typing import Any

from gateway.wire import DIALECTS
from gateway.wire.answers.sse import SseSplitter
from gateway.wire.dialect import BodyBounds, FrameFacts, ParsedBody, Rewrite

RESPONSES = DIALECTS["/v1/responses"]
USAGE = {
    "input_tokens": 7,
    "input_tokens_details": {"cached_tokens": 4},
    "output_tokens": 2,
    "output_tokens_details": {"reasoning_tokens": 1},
    "total_tokens": 9,
}


def named(kind: str, number: int | None = None, **fields: Any) -> bytes:
    """One event, its name on a line of its own."""
    counted = {} if number is None else {"sequence_number": number}
    data = json.dumps({"type": kind, **fields, **counted}, ensure_ascii=False)
    return f"event: {kind}\ndata: {data}\n\n".encode()


def text_delta(text: str, number: int | None = None, **fields: Any) -> bytes:
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0, "logprobs": []}
    return named("response.output_text.delta", number, **place, delta=text, **fields)


def response(status: str = "completed", **fields: Any) -> dict[str, Any]:
    part = {"type": "output_text", "text": "Grüße 世界", "annotations": []}
    item = {"id": "msg_1", "type": "message", "role": "assistant", "status": status}
    body = {"id": "resp_1", "object": "response", "status": status, "model": "up"}
    return {**body, "output": [{**item, "content": [part]}], "usage": USAGE, **fields}


def opening(first: int | None = 0) -> list[bytes]:
    """What comes before the first content: four events."""
    numbers = [None] * 4 if first is None else list(range(first, first + 4))
    begun = response("in_progress", output=[], usage=None)
    item = {"id": "msg_1", "type": "message", "role": "assistant", "content": []}
    part = {"type": "output_text", "text": "", "annotations": []}
    return [
        named("response.created", numbers[0], response=begun),
        named("response.in_progress", numbers[1], response=begun),
        named("response.output_item.added", numbers[2], output_index=0, item=item),
        named("response.content_part.added", numbers[3], item_id="msg_1", part=part),
    ]


def closing(first: int | None = 6, end: str = "response.completed", **fields: Any) -> list[bytes]:
    numbers = [None] * 4 if first is None else list(range(first, first + 4))
    whole = response(end.removeprefix("response."), **fields)
    return [
        named("response.output_text.done", numbers[0], item_id="msg_1", text="Grüße 世界"),
        named("response.content_part.done", numbers[1], item_id="msg_1"),
        named("response.output_item.done", numbers[2], item=whole["output"][0]),
        named(end, numbers[3], response=whole),
    ]


WHOLE = [*opening(), text_delta("Grüße ", 4), text_delta("世界", 5), *closing()]


def parsed(given: Any = "hi", **fields: Any) -> ParsedBody:
    raw = json.dumps({"model": "m", "input": given, **fields}).encode()
    return RESPONSES.parse(raw, BodyBounds())


def read(raw: bytes, body: ParsedBody | None = None) -> list[FrameFacts]:
    reader, splitter = RESPONSES.reader(body or parsed(), Rewrite("up")), SseSplitter()
    return [reader.facts(frame) for frame in splitter.feed(raw) + splitter.finish()]
