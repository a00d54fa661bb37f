"""What does the JSON of one event of an OpenAI stream say, of the few fields that the gateway must
know?

One shape serves chat and completions: a choice carries a ``delta`` or a ``text``. It also tells an
error, and a usage, wherever a server has written these in the words of chat.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from gateway.core.dispatch.effects import Usage
from gateway.wire.answers.events import Count, event_decoder, fitting, raw_of, text_of


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


def _untyped(event: dict[str, Any]) -> Chunk:
    choices = event.get("choices")
    return Chunk(
        choices=[_choice(item) for item in choices] if isinstance(choices, list) else None,
        usage=fitting(event.get("usage"), ReportedUsage),
        timings=fitting(event.get("timings"), Timings),
        error=raw_of(event.get("error")),
        object=text_of(event.get("object")),
        prompt_progress=raw_of(event.get("prompt_progress")),
    )


def _choice(item: Any) -> Choice:
    if not isinstance(item, dict):
        return Choice()
    index, delta = item.get("index"), item.get("delta")
    return Choice(
        index=index if type(index) is int else 0,
        delta=_delta(delta) if isinstance(delta, dict) else None,
        text=text_of(item.get("text")),
        finish_reason=text_of(item.get("finish_reason")),
    )


def _delta(item: dict[str, Any]) -> Delta:
    return Delta(
        content=text_of(item.get("content")),
        reasoning_content=text_of(item.get("reasoning_content")),
        reasoning=text_of(item.get("reasoning")),
        refusal=text_of(item.get("refusal")),
        tool_calls=raw_of(item.get("tool_calls")),
        function_call=raw_of(item.get("function_call")),
        audio=raw_of(item.get("audio")),
    )


decode_chunk: Final = event_decoder(Chunk, _untyped)
