"""The Messages API of a simulated replica: vLLM's and llama.cpp's form of it, one token per event.

The prompt is read as a chat would be: tools, then system, then the messages, so that the same
conversation finds the same blocks of the cache in both APIs.
"""

from __future__ import annotations

from typing import Any

import msgspec

from gateway.replicas.simulated_call import Refusal, SimulatedCall, bad_request, json_object, parse
from gateway.simulation.engine import Engine

_MARK = "\x00"
_STOP_REASONS = {"stop": "end_turn", "length": "max_tokens"}
_PASSED = ("max_tokens", "min_tokens", "ignore_eos", "stream", "cache_salt", "tools")


def parse_messages(raw: bytes, request_id: str, *, model: str, engine: Engine) -> SimulatedCall:
    """Raises Refusal."""
    body = json_object(raw, model)
    if not isinstance(body.get("max_tokens"), int):
        raise bad_request("max_tokens: Field required")
    return parse(_as_chat(body, model), request_id, chat=True, model=model, engine=engine)


def count_tokens(raw: bytes, *, model: str, engine: Engine) -> bytes:
    """The answer of ``count_tokens``. Raises Refusal."""
    body = json_object(raw, model) | {"max_tokens": 1}
    call = parse(_as_chat(body, model), "count", chat=True, model=model, engine=engine)
    return msgspec.json.encode({"input_tokens": call.request.prompt_tokens})


def refusal_body(refusal: Refusal) -> bytes:
    kinds = {404: "not_found_error", 503: "overloaded_error"}
    kind = kinds.get(refusal.status, "invalid_request_error")
    error = {"type": kind, "message": refusal.message}
    return msgspec.json.encode({"type": "error", "error": error})


class MessagesWriter:
    """The events of one message."""

    def __init__(self, call: SimulatedCall, created_at: int) -> None:
        self._call = call
        delta = {"type": "text_delta", "text": _MARK}
        piece = {"type": "content_block_delta", "index": 0, "delta": delta}
        self._before, self._after = _event(piece).split(b"\\u0000")

    def opening(self) -> bytes:
        """Nothing: what begins a message knows how much was cached, so it comes with the first
        token."""
        return b""

    def token(self, number: int, cached_tokens: int) -> bytes:
        delta = self._before + self._call.answer[number - 1] + self._after
        return delta if number > 1 else self._start(cached_tokens) + delta

    def closing(self, number: int, cached_tokens: int) -> bytes:
        delta = {"stop_reason": _STOP_REASONS[self._call.finish], "stop_sequence": None}
        usage = {"output_tokens": number}
        return (
            _event({"type": "content_block_stop", "index": 0})
            + _event({"type": "message_delta", "delta": delta, "usage": usage})
            + _event({"type": "message_stop"})
        )

    def whole(self, cached_tokens: int) -> bytes:
        text = b"".join(self._call.answer).decode()
        usage = self._usage(len(self._call.answer), cached_tokens)
        content = [{"type": "text", "text": text}]
        stop_reason = _STOP_REASONS[self._call.finish]
        return msgspec.json.encode(self._message(content, stop_reason, usage))

    def _start(self, cached_tokens: int) -> bytes:
        message = self._message([], None, self._usage(0, cached_tokens))
        block = {"type": "text", "text": ""}
        return _event({"type": "message_start", "message": message}) + _event(
            {"type": "content_block_start", "index": 0, "content_block": block}
        )

    def _message(
        self, content: list[dict[str, Any]], stop_reason: str | None, usage: dict[str, int]
    ) -> dict[str, Any]:
        return {
            "id": self._call.request.request_id,
            "type": "message",
            "role": "assistant",
            "model": self._call.model,
            "content": content,
            "stop_reason": stop_reason,
            "stop_sequence": None,
            "usage": usage,
        }

    def _usage(self, output_tokens: int, cached_tokens: int) -> dict[str, int]:
        return {
            "input_tokens": self._call.request.prompt_tokens - cached_tokens,
            "cache_read_input_tokens": cached_tokens,
            "output_tokens": output_tokens,
        }


def _as_chat(body: dict[str, Any], model: str) -> bytes:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise bad_request("messages must be a list that is not empty.")
    if body.get("system"):
        messages = [{"role": "system", "content": body["system"]}, *messages]
    told = [
        {"role": message.get("role"), "content": _text(message.get("content"))}
        for message in messages
        if isinstance(message, dict)
    ]
    passed = {name: body[name] for name in _PASSED if body.get(name) is not None}
    return msgspec.json.encode(passed | {"model": model, "messages": told})


def _text(content: Any) -> str:
    """Texts of blocks and of the results of tools; a call of a tool as its JSON."""
    if isinstance(content, list):
        return "".join(map(_text, content))
    if not isinstance(content, dict):
        return content if isinstance(content, str) else ""
    if content.get("type") == "tool_use":
        return msgspec.json.encode([content.get("name"), content.get("input")]).decode()
    return str(content.get("text") or "") + _text(content.get("content"))


def _event(data: dict[str, Any]) -> bytes:
    return f"event: {data['type']}\ndata: ".encode() + msgspec.json.encode(data) + b"\n\n"
