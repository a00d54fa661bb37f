"""``chat/completions``: messages in, messages out. ``completions``: a prompt in, its continuation
out; several prompts multiply the choices. All but the request's fields and a choice's shape is the
same.

The replica gets the validated body, serialised anew (never the caller's bytes), with what the
gateway decides written over it: a stream with usage always, the replica's own model name, the
gateway's own fields, and an output cap where the caller gave none. Everything else stays as it
came.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from gateway.core.errors import CallError
from gateway.wire import errors
from gateway.wire.answers.sse import SseSplitter
from gateway.wire.body import accepted, invalid
from gateway.wire.chat.aggregator import AnswerAggregator, FinishChoice
from gateway.wire.chat.fields import MAX_PROMPTS, ChatFields, CompletionsFields, SharedFields
from gateway.wire.chat.prompt_size import add_fields, add_messages
from gateway.wire.chat.reader import OpenAiStreamReader
from gateway.wire.dialect import BodyBounds, ParsedBody, Rewrite
from gateway.wire.headers import EVENT_STREAM
from gateway.wire.prompt.lists import add_prompts
from gateway.wire.prompt.text import PromptText
from gateway.wire.request_fields import largest_cap
from gateway.wire.upstream_request import write_own_fields


@dataclass(frozen=True, slots=True)
class OpenAiDialect:
    """Implements Dialect."""

    endpoint: str
    answer_object: str
    parse_body: Callable[[bytes, BodyBounds], ParsedBody]
    finish_choice: FinishChoice
    accept: str = EVENT_STREAM

    def parse(self, raw: bytes, bounds: BodyBounds) -> ParsedBody:
        return self.parse_body(raw, bounds)

    def upstream_body(self, parsed: ParsedBody, rewrite: Rewrite) -> bytes:
        body = {**parsed.body, **rewrite.extras, "model": rewrite.upstream_model, "stream": True}
        body["stream_options"] = {
            **(parsed.body.get("stream_options") or {}),
            **(rewrite.extras.get("stream_options") or {}),
            "include_usage": True,
        }
        write_own_fields(body, rewrite)
        if rewrite.max_tokens_if_absent is not None and body.get("max_tokens") is None:
            body["max_tokens"] = parsed.max_output_tokens or rewrite.max_tokens_if_absent
        return msgspec.json.encode(body)

    def splitter(self) -> SseSplitter:
        return SseSplitter()

    def reader(self, parsed: ParsedBody, rewrite: Rewrite) -> OpenAiStreamReader:
        return OpenAiStreamReader(parsed, rewrite)

    def aggregator(self, parsed: ParsedBody) -> AnswerAggregator:
        return AnswerAggregator(parsed, self.answer_object, self.finish_choice)

    def error_body(self, error: CallError, request_id: str) -> bytes:
        return errors.error_body(error)

    def error_event(self, error: CallError, request_id: str, *, next_event: int = 0) -> bytes:
        return errors.error_event(error)


def _parse_chat(raw: bytes, bounds: BodyBounds) -> ParsedBody:
    body, known = accepted(raw, bounds, ChatFields)
    text = PromptText()
    add_messages(text, body["messages"])
    add_fields(text, body)
    cap = largest_cap(known.max_tokens, known.max_completion_tokens, known.n_predict)
    return _parsed(body, known, text, n=_choices(known), cap=cap, size_bytes=len(raw))


def _parse_completions(raw: bytes, bounds: BodyBounds) -> ParsedBody:
    body, known = accepted(raw, bounds, CompletionsFields)
    n = _choices(known)
    text = PromptText()
    prompts, _ = add_prompts(text, known.prompt, name="prompt", most=MAX_PROMPTS)
    add_fields(text, body)
    cap = largest_cap(known.max_tokens, known.n_predict)
    return _parsed(body, known, text, n=n * prompts, cap=cap, size_bytes=len(raw))


def _choices(known: SharedFields) -> int:
    """Of each prompt. Raises Rejected where two fields give two numbers."""
    n = known.n or 1
    if (known.best_of or n) != n:
        raise invalid("The field best_of must equal n: answers are streamed.", "best_of")
    if (known.n_cmpl or n) != n:
        raise invalid("The field n_cmpl must equal n.", "n_cmpl")
    return n


def _parsed(
    body: dict[str, Any],
    known: SharedFields,
    text: PromptText,
    *,
    n: int,
    cap: int | None,
    size_bytes: int,
) -> ParsedBody:
    options = known.stream_options
    return ParsedBody(
        model=known.model,
        stream=bool(known.stream),
        include_usage=bool(options and options.include_usage),
        prompt_bytes=text.size_bytes,
        script=text.script,
        max_output_tokens=cap,
        n=n,
        body=body,
        service_tier=known.service_tier,
        has_media=text.has_media,
        user=known.user,
        size_bytes=size_bytes,
    )


def _finish_message(choice: dict[str, Any]) -> dict[str, Any]:
    """What was a delta becomes the message; fields that the public shape always has are there."""
    delta = choice.pop("delta", None)
    delta = delta if isinstance(delta, dict) else {}
    content = delta.pop("content", None)
    if not content:
        content = None if delta.get("tool_calls") or delta.get("refusal") else ""
    message = {"role": "assistant", "content": content, "refusal": None, **delta}
    finish_reason, logprobs = choice.pop("finish_reason", None), choice.pop("logprobs", None)
    return {**choice, "message": message, "logprobs": logprobs, "finish_reason": finish_reason}


def _finish_text(choice: dict[str, Any]) -> dict[str, Any]:
    text = choice.pop("text", None) or ""
    finish_reason, logprobs = choice.pop("finish_reason", None), choice.pop("logprobs", None)
    return {**choice, "text": text, "logprobs": logprobs, "finish_reason": finish_reason}


CHAT: Final = OpenAiDialect("chat/completions", "chat.completion", _parse_chat, _finish_message)
COMPLETIONS: Final = OpenAiDialect(
    "completions", "text_completion", _parse_completions, _finish_text
)
