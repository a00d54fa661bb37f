"""What did an answer cost? Read from the answer's own ``usage``; absent counts are 0.

``responses`` has its own names for what the other endpoints call prompt and completion.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec


class _Details(msgspec.Struct):
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: _Details | None = None
    output_tokens_details: _Details | None = None


class _Answer(msgspec.Struct):
    usage: _Usage | None = None


@dataclass(frozen=True, slots=True)
class TokenUsage:
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0


_decoder = msgspec.json.Decoder(_Answer)


def usage_of(body: bytes) -> TokenUsage:
    try:
        usage = _decoder.decode(body).usage or _Usage()
    except msgspec.MsgspecError:
        return TokenUsage()
    prompt = usage.prompt_tokens_details or usage.input_tokens_details or _Details()
    completion = usage.completion_tokens_details or usage.output_tokens_details or _Details()
    return TokenUsage(
        usage.prompt_tokens or usage.input_tokens or 0,
        prompt.cached_tokens or 0,
        usage.completion_tokens or usage.output_tokens or 0,
        completion.reasoning_tokens or 0,
    )
