"""``completions``: a prompt in, its continuation out. Several prompts multiply the choices."""

from __future__ import annotations

from typing import Any, Final

from gateway.wire.body import check_refused, decode_object, invalid, known_fields
from gateway.wire.dialect import BodyBounds, ParsedBody
from gateway.wire.openai_dialect import OpenAiDialect
from gateway.wire.prompt_text import PromptText, add_fields
from gateway.wire.prompts import add_prompts
from gateway.wire.request_fields import MAX_PROMPTS, CompletionsFields, largest_cap, wants_usage


def _parse(raw: bytes, bounds: BodyBounds) -> ParsedBody:
    body = decode_object(raw, bounds)
    check_refused(body)
    known = known_fields(body, CompletionsFields)
    n = known.n or 1
    if (known.best_of or n) != n:
        raise invalid("The field best_of must equal n: answers are streamed.", "best_of")
    text = PromptText()
    prompts, _ = add_prompts(text, known.prompt, name="prompt", most=MAX_PROMPTS)
    add_fields(text, body)
    return ParsedBody(
        model=known.model,
        stream=bool(known.stream),
        include_usage=wants_usage(known),
        prompt_bytes=text.size_bytes,
        script=text.script,
        max_output_tokens=largest_cap(known.max_tokens, known.n_predict),
        n=n * prompts,
        body=body,
        service_tier=known.service_tier,
        user=known.user,
        size_bytes=len(raw),
    )


def _finish_choice(choice: dict[str, Any]) -> dict[str, Any]:
    text = choice.pop("text", None) or ""
    finish_reason, logprobs = choice.pop("finish_reason", None), choice.pop("logprobs", None)
    return {**choice, "text": text, "logprobs": logprobs, "finish_reason": finish_reason}


COMPLETIONS: Final = OpenAiDialect("completions", "text_completion", _parse, _finish_choice)
