"""Which fields of the two requests does the gateway know, and what may they be?"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from gateway.wire.request_fields import (
    MAX_INT32,
    MAX_MESSAGES,
    Cap,
    Name,
    Share,
    ShortText,
    StopText,
    StreamOptions,
    TokenId,
    UpToTwenty,
)

MAX_PROMPTS: Final = 128
_MAX_INT64: Final = 2**63 - 1

Choices = Annotated[int, Meta(ge=1, le=8)]
Penalty = Annotated[float, Meta(ge=-2, le=2)]
Bias = Annotated[float, Meta(ge=-100, le=100)]
Pattern = Annotated[str, Meta(max_length=512)]


class ResponseFormat(msgspec.Struct):
    type: ShortText


class StructuredOutputs(msgspec.Struct):
    """vLLM's; ``guided_regex`` is its older name."""

    regex: Pattern | None = None


class SharedFields(msgspec.Struct, kw_only=True):
    """What chat and completions have in common. ``n_predict`` is llama.cpp's name of a cap,
    ``n_cmpl`` its other name of ``n``, ``n_probs`` that of ``top_logprobs``. ``best_of`` above
    ``n`` cannot be streamed, and every upstream request is a stream."""

    model: Name
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: Cap | None = None
    n_predict: Cap | None = None
    min_tokens: Annotated[int, Meta(ge=0, le=MAX_INT32)] | None = None
    n: Choices | None = None
    n_cmpl: Choices | None = None
    best_of: Choices | None = None
    n_probs: UpToTwenty | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Share | None = None
    min_p: Share | None = None
    top_k: Annotated[int, Meta(ge=-1, le=MAX_INT32)] | None = None
    frequency_penalty: Penalty | None = None
    presence_penalty: Penalty | None = None
    repetition_penalty: Annotated[float, Meta(ge=0, le=100)] | None = None
    seed: Annotated[int, Meta(ge=-_MAX_INT64 - 1, le=_MAX_INT64)] | None = None
    stop: StopText | Annotated[list[StopText], Meta(max_length=16)] | None = None
    logit_bias: Annotated[dict[str, Bias], Meta(max_length=300)] | None = None
    user: ShortText | None = None
    service_tier: ShortText | None = None
    metadata: Annotated[dict[str, Any], Meta(max_length=16)] | None = None
    response_format: ResponseFormat | None = None
    guided_regex: Pattern | None = None
    structured_outputs: StructuredOutputs | None = None
    return_progress: bool | None = None


class Message(msgspec.Struct):
    role: Annotated[str, Meta(min_length=1, max_length=64)]
    content: str | list[str | dict[str, Any]] | None = None


class ChatFields(SharedFields, kw_only=True):
    messages: Annotated[list[Message], Meta(min_length=1, max_length=MAX_MESSAGES)]
    max_completion_tokens: Cap | None = None
    logprobs: bool | None = None
    top_logprobs: UpToTwenty | None = None
    tools: list[dict[str, Any]] | None = None
    functions: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    reasoning_effort: ShortText | None = None


class CompletionsFields(SharedFields, kw_only=True):
    prompt: str | Annotated[list[str | TokenId | list[TokenId]], Meta(min_length=1)]
    suffix: str | None = None
    logprobs: UpToTwenty | None = None
    echo: bool | None = None
