"""The Responses API of a simulated replica: vLLM's form of it, one token per event.

The prompt is read as a chat would be: tools, then instructions, then the items, so that the same
conversation finds the same blocks of the cache in both APIs. Where a tool must be called, the
answer is a call of it, with the words as its only argument. Nothing is stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

import msgspec

from gateway.replicas.simulated_call import SimulatedCall, bad_request, json_object, parse
from gateway.simulation.engine import Engine

_PASSED: Final = ("min_tokens", "ignore_eos", "stream", "cache_salt", "tools")
_TOLD_BACK: Final = ("instructions", "metadata", "temperature", "tool_choice", "tools", "top_p")
_BEFORE_ARGUMENTS: Final = b'{"text":"'
_AFTER_ARGUMENTS: Final = b'"}'


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponsesCall(SimulatedCall):
    """``tool`` empty: the answer is a text."""

    tool: str
    told_back: Mapping[str, Any]


def parse_responses(raw: bytes, request_id: str, *, model: str, engine: Engine) -> ResponsesCall:
    """Raises Refusal."""
    body = json_object(raw, model)
    if body.get("previous_response_id") or body.get("background"):
        raise bad_request("The simulated replica stores no responses.")
    chat = parse(_as_chat(body, model), request_id, chat=True, model=model, engine=engine)
    known = {each.name: getattr(chat, each.name) for each in fields(chat)}
    defaults = {"tool_choice": "auto", "tools": []}
    told_back = {name: body.get(name, defaults.get(name)) for name in _TOLD_BACK}
    return ResponsesCall(**known, tool=_forced_tool(body), told_back=told_back)


def count_tokens(raw: bytes, *, model: str, engine: Engine) -> bytes:
    """The answer of ``input_tokens``. Raises Refusal."""
    body = json_object(raw, model)
    call = parse(_as_chat(body, model), "count", chat=True, model=model, engine=engine)
    told = {"object": "response.input_tokens", "input_tokens": call.request.prompt_tokens}
    return msgspec.json.encode(told)


class ResponsesWriter:
    """The events of one response."""

    def __init__(self, call: SimulatedCall, created_at: int) -> None:
        assert isinstance(call, ResponsesCall)
        self._call = call
        self._created_at = created_at
        self._id = call.request.request_id
        self._opening = list(self._opening_events())
        kind = "function_call_arguments" if call.tool else "output_text"
        self._delta = f"response.{kind}.delta"

    def opening(self) -> bytes:
        return b"".join(_event(event, number) for number, event in enumerate(self._opening))

    def token(self, number: int, cached_tokens: int) -> bytes:
        text = self._call.answer[number - 1]
        if self._call.tool:
            text = _BEFORE_ARGUMENTS * (number == 1) + text
            text += _AFTER_ARGUMENTS * (number == len(self._call.answer))
        event = {"type": self._delta, **self._place(), "delta": text.decode()}
        return _event(event, len(self._opening) + number - 1)

    def closing(self, number: int, cached_tokens: int) -> bytes:
        first = len(self._opening) + number
        events = self._closing_events(cached_tokens)
        return b"".join(_event(event, first + at) for at, event in enumerate(events))

    def whole(self, cached_tokens: int) -> bytes:
        return msgspec.json.encode(self._response(self._status, cached_tokens))

    @property
    def _status(self) -> str:
        return "completed" if self._call.finish == "stop" else "incomplete"

    def _opening_events(self) -> Iterator[dict[str, Any]]:
        begun = self._response("in_progress", 0)
        yield {"type": "response.created", "response": begun}
        yield {"type": "response.in_progress", "response": begun}
        item = self._item("in_progress")
        yield {"type": "response.output_item.added", "output_index": 0, "item": item}
        if not self._call.tool:
            part = _text_part("")
            yield {"type": "response.content_part.added", **self._place(), "part": part}

    def _closing_events(self, cached_tokens: int) -> Iterator[dict[str, Any]]:
        place, text = self._place(), self._text()
        if self._call.tool:
            kind, name = "response.function_call_arguments.done", self._call.tool
            yield {"type": kind, **place, "name": name, "arguments": text}
        else:
            yield {"type": "response.output_text.done", **place, "text": text}
            part = _text_part(text)
            yield {"type": "response.content_part.done", **place, "part": part}
        item = self._item(self._status)
        yield {"type": "response.output_item.done", "output_index": 0, "item": item}
        whole = self._response(self._status, cached_tokens)
        yield {"type": f"response.{self._status}", "response": whole}

    def _place(self) -> dict[str, Any]:
        item = {"item_id": f"item_{self._id}", "output_index": 0}
        return item if self._call.tool else {**item, "content_index": 0, "logprobs": []}

    def _text(self) -> str:
        text = b"".join(self._call.answer)
        if self._call.tool:
            text = _BEFORE_ARGUMENTS + text + _AFTER_ARGUMENTS
        return text.decode()

    def _item(self, status: str) -> dict[str, Any]:
        item = {"id": f"item_{self._id}", "status": status}
        text = "" if status == "in_progress" else self._text()
        if self._call.tool:
            name, call_id = self._call.tool, f"call_{self._id}"
            call = {"type": "function_call", "name": name, "call_id": call_id}
            return {**item, **call, "arguments": text}
        content = [_text_part(text)] if text else []
        return {**item, "type": "message", "role": "assistant", "content": content}

    def _response(self, status: str, cached_tokens: int) -> dict[str, Any]:
        begun = status == "in_progress"
        cut_off = {"reason": "max_output_tokens"} if status == "incomplete" else None
        return {
            "id": self._id,
            "object": "response",
            "created_at": self._created_at,
            "status": status,
            "error": None,
            "incomplete_details": cut_off,
            "model": self._call.model,
            "output": [] if begun else [self._item(status)],
            "parallel_tool_calls": True,
            "store": False,
            **self._call.told_back,
            "usage": None if begun else self._usage(cached_tokens),
        }

    def _usage(self, cached_tokens: int) -> dict[str, Any]:
        prompt, output = self._call.request.prompt_tokens, len(self._call.answer)
        return {
            "input_tokens": prompt,
            "input_tokens_details": {"cached_tokens": cached_tokens, "cache_write_tokens": 0},
            "output_tokens": output,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": prompt + output,
        }


def _as_chat(body: Mapping[str, Any], model: str) -> bytes:
    given = body.get("input")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    if not isinstance(items, list) or not items:
        raise bad_request("input must be a text or a list of items that is not empty.")
    if body.get("instructions"):
        items = [{"role": "system", "content": body["instructions"]}, *items]
    chat = {name: body[name] for name in _PASSED if body.get(name) is not None}
    if body.get("max_output_tokens") is not None:
        chat["max_tokens"] = body["max_output_tokens"]
    messages = [_message(item) for item in items if isinstance(item, dict)]
    return msgspec.json.encode(chat | {"model": model, "messages": messages})


def _message(item: Mapping[str, Any]) -> dict[str, Any]:
    match item.get("type"):
        case "function_call":
            call = [item.get("name"), item.get("arguments")]
            return {"role": "assistant", "content": msgspec.json.encode(call).decode()}
        case "function_call_output":
            return {"role": "tool", "content": item.get("output")}
        case _:
            return {"role": item.get("role"), "content": item.get("content")}


def _forced_tool(body: Mapping[str, Any]) -> str:
    """The name of the function that must be called, empty where none must."""
    choice, tools = body.get("tool_choice"), body.get("tools")
    if isinstance(choice, dict) and choice.get("type") == "function":
        return str(choice.get("name", ""))
    names = [
        str(tool.get("name", ""))
        for tool in (tools if isinstance(tools, list) else [])
        if isinstance(tool, dict) and tool.get("type") == "function"
    ]
    return names[0] if choice == "required" and names else ""


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _event(data: dict[str, Any], number: int) -> bytes:
    numbered = msgspec.json.encode({**data, "sequence_number": number})
    return f"event: {data['type']}\ndata: ".encode() + numbered + b"\n\n"
