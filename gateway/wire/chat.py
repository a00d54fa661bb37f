"""``chat/completions``: messages in, messages out."""

from __future__ import annotations

from typing import Any, Final

from gateway.wire.body import check_refused, decode_object, known_fields
from gateway.wire.dialect import BodyBounds, ParsedBody
from gateway.wire.openai_dialect import OpenAiDialect
from gateway.wire.prompt_text import PromptText, add_fields, add_messages
from gateway.wire.request_fields import ChatFields, largest_cap, wants_usage


def _parse(raw: bytes, bounds: BodyBounds) -> ParsedBody:
    body = decode_object(raw, bounds)
    check_refused(body)
    known = known_fields(body, ChatFields)
    text = PromptText()
    add_messages(text, body["messages"])
    add_fields(text, body)
    return ParsedBody(
        model=known.model,
        stream=bool(known.stream),
        include_usage=wants_usage(known),
        prompt_bytes=text.size_bytes,
        script=text.script,
        max_output_tokens=largest_cap(
            known.max_tokens, known.max_completion_tokens, known.n_predict
        ),
        n=known.n or 1,
        body=body,
        service_tier=known.service_tier,
        has_media=text.has_media,
        user=known.user,
        size_bytes=len(raw),
    )


def _finish_choice(choice: dict[str, Any]) -> dict[str, Any]:
    """What was a delta becomes the message; fields that the public shape always has are there."""
    delta = choice.pop("delta", None)
    delta = delta if isinstance(delta, dict) else {}
    content = delta.pop("content", None)
    if not content:
        content = None if delta.get("tool_calls") or delta.get("refusal") else ""
    message = {"role": "assistant", "content": content, "refusal": None, **delta}
    finish_reason, logprobs = choice.pop("finish_reason", None), choice.pop("logprobs", None)
    return {**choice, "message": message, "logprobs": logprobs, "finish_reason": finish_reason}


CHAT: Final = OpenAiDialect("chat/completions", "chat.completion", _parse, _finish_choice)
