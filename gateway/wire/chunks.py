"""What does the JSON of one stream event say, of the few fields that the gateway must know?

One shape serves chat and completions: a choice carries a ``delta`` or a ``text``. The typed decode
reads only these fields and skips the rest. What does not fit the types (a vendor that sends content
as parts, a usage of strings) is read again without types, so that an odd field is never an error;
what is not JSON, or no object, is ``Garbled``.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from gateway.core.dispatch.effects import Usage

Count = Annotated[int, Meta(ge=0)]


class Garbled(ValueError):
    """The event is not a JSON object."""


class Delta(msgspec.Struct, gc=False):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    tool_calls: msgspec.Raw = msgspec.Raw()
    function_call: msgspec.Raw = msgspec.Raw()
    audio: msgspec.Raw = msgspec.Raw()


class Choice(msgspec.Struct, gc=False):
    index: int = 0
    delta: Delta | None = None
    text: str | None = None
    finish_reason: str | None = None


class PromptDetails(msgspec.Struct, gc=False):
    cached_tokens: Count | None = None


class ReportedUsage(msgspec.Struct, gc=False):
    prompt_tokens: Count = 0
    completion_tokens: Count = 0
    prompt_tokens_details: PromptDetails | None = None

    def as_usage(self) -> Usage:
        details = self.prompt_tokens_details
        cached = (details.cached_tokens or 0) if details else 0
        return Usage(self.prompt_tokens, min(cached, self.prompt_tokens), self.completion_tokens)


class Timings(msgspec.Struct, gc=False):
    predicted_n: Count | None = None


class Chunk(msgspec.Struct, gc=False):
    choices: list[Choice] | None = None
    usage: ReportedUsage | None = None
    timings: Timings | None = None
    error: msgspec.Raw = msgspec.Raw()
    object: str | None = None
    prompt_progress: msgspec.Raw = msgspec.Raw()


_DECODER = msgspec.json.Decoder(Chunk)
_EMPTY = (b"", b"null", b"[]", b"{}", b'""', b"false")


def decode_chunk(data: bytes) -> Chunk:
    """Raises Garbled."""
    try:
        return _DECODER.decode(data)
    except msgspec.ValidationError:
        return _untyped(data)
    except (msgspec.DecodeError, RecursionError):
        raise Garbled from None


def decode_json(data: bytes | msgspec.Raw) -> Any:
    """The whole of it, without types. Raises Garbled: the typed decode skips what it does not
    read, so it may have taken what this does not."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        raise Garbled from None


def says(raw: msgspec.Raw) -> bool:
    """The field is there and is not null, empty or false."""
    return bool(raw) and bytes(raw) not in _EMPTY


def _untyped(data: bytes) -> Chunk:
    event = decode_json(data)
    if not isinstance(event, dict):
        raise Garbled
    choices = event.get("choices")
    return Chunk(
        choices=[_choice(item) for item in choices] if isinstance(choices, list) else None,
        usage=fitting(event.get("usage"), ReportedUsage),
        timings=fitting(event.get("timings"), Timings),
        error=_raw(event.get("error")),
        object=_text(event.get("object")),
        prompt_progress=_raw(event.get("prompt_progress")),
    )


def _choice(item: Any) -> Choice:
    if not isinstance(item, dict):
        return Choice()
    index, delta = item.get("index"), item.get("delta")
    return Choice(
        index=index if type(index) is int else 0,
        delta=_delta(delta) if isinstance(delta, dict) else None,
        text=_text(item.get("text")),
        finish_reason=_text(item.get("finish_reason")),
    )


def _delta(item: dict[str, Any]) -> Delta:
    return Delta(
        content=_text(item.get("content")),
        reasoning_content=_text(item.get("reasoning_content")),
        reasoning=_text(item.get("reasoning")),
        refusal=_text(item.get("refusal")),
        tool_calls=_raw(item.get("tool_calls")),
        function_call=_raw(item.get("function_call")),
        audio=_raw(item.get("audio")),
    )


def fitting(value: Any, shape: type[Any]) -> Any:
    """None where ``value`` is absent or does not fit the shape."""
    try:
        return msgspec.convert(value, shape) if value is not None else None
    except msgspec.ValidationError:
        return None


def _text(value: Any) -> str | None:
    """A string as it is; anything else that says something stands for its JSON."""
    if value is None or isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode() if value else None


def _raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value)) if value is not None else msgspec.Raw()
