"""How does a Messages stream become the Message of a caller that did not ask for a stream?

Blocks stand in the order of their index. What the deltas of a block say is joined onto its
beginning, fields known and unknown alike; the pieces of a tool's input are parsed at the end, as
far as they go when the answer was cut by ``max_tokens``, as the public SDKs do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pydantic_core

from gateway.wire.answers.gathered import Gathering
from gateway.wire.answers.merging import Merged
from gateway.wire.dialect import Frame

_INPUT_PIECES = "partial_json"


class MessageAggregator:
    """Implements Aggregator."""

    def __init__(self, model: str) -> None:
        self._message: dict[str, Any] = {
            "id": "",
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
        }
        self._usage: dict[str, Any] = {"input_tokens": 0, "output_tokens": 0}
        self._blocks: dict[int, Merged] = {}
        self._gathering = Gathering()

    def repeat(self, texts: Sequence[str], size_bytes: int) -> bool:
        return False

    def feed(self, frame: Frame) -> None:
        event = self._gathering.event(frame)
        if event is None:
            return
        match event.get("type") or frame.event:
            case "message_start":
                self._started(_object(event.get("message")))
            case "content_block_start":
                self._block(event).add(_object(event.get("content_block")))
            case "content_block_delta":
                self._block(event).add(_piece(_object(event.get("delta"))))
            case "message_delta":
                self._message.update(_object(event.get("delta")))
                self._add_usage(event.get("usage"))

    def _started(self, message: dict[str, Any]) -> None:
        self._add_usage(message.pop("usage", None))
        message.pop("content", None)
        self._message.update({name: value for name, value in message.items() if value is not None})

    def _add_usage(self, usage: Any) -> None:
        known = {name: value for name, value in _object(usage).items() if value is not None}
        self._usage.update(known)

    def _block(self, event: dict[str, Any]) -> Merged:
        index = event.get("index")
        return self._blocks.setdefault(index if type(index) is int else 0, Merged())

    def result(self, *, service_tier: str | None = None) -> bytes:
        content = [_finished(self._blocks[index].value()) for index in sorted(self._blocks)]
        usage = (
            self._usage if service_tier is None else self._usage | {"service_tier": service_tier}
        )
        return msgspec.json.encode({**self._message, "content": content, "usage": usage})


def _piece(delta: dict[str, Any]) -> dict[str, Any]:
    """What a delta adds to its block. Its type is not the block's."""
    piece = {name: value for name, value in delta.items() if name != "type"}
    if "citation" in piece:
        piece["citations"] = [piece.pop("citation")]
    return piece


def _finished(block: dict[str, Any]) -> dict[str, Any]:
    pieces = block.pop(_INPUT_PIECES, None)
    if isinstance(pieces, str) and pieces:
        block["input"] = _input(pieces)
    return block


def _input(text: str) -> dict[str, Any]:
    try:
        value = pydantic_core.from_json(text, allow_partial="trailing-strings")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
