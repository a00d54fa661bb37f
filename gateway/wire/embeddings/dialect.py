"""``embeddings``: texts in, vectors out. Nothing is generated and nothing is streamed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from gateway.core.errors import CallError
from gateway.wire import errors
from gateway.wire.answers.whole_body import WholeBody
from gateway.wire.body import accepted, invalid
from gateway.wire.dialect import BodyBounds, ParsedBody, Rewrite
from gateway.wire.embeddings.aggregator import EmbeddingsAggregator
from gateway.wire.embeddings.fields import MAX_INPUTS, EmbeddingsFields
from gateway.wire.embeddings.reader import EmbeddingsReader
from gateway.wire.headers import JSON
from gateway.wire.prompt.lists import Prompts, add_prompts
from gateway.wire.prompt.text import PromptText
from gateway.wire.upstream_request import write_own_fields

_NO_STREAM: Final = ("stream", "stream_options")


@dataclass(frozen=True, slots=True)
class EmbeddingsDialect:
    """Implements Dialect."""

    endpoint: str = "embeddings"
    accept: str = JSON

    def parse(self, raw: bytes, bounds: BodyBounds) -> ParsedBody:
        body, known = accepted(raw, bounds, EmbeddingsFields)
        if known.stream:
            raise invalid("Embeddings are not streamed.", "stream")
        text = PromptText()
        _, longest = add_prompts(text, _prompts(known), name="input", most=MAX_INPUTS)
        return ParsedBody(
            model=known.model,
            stream=False,
            include_usage=True,
            prompt_bytes=text.size_bytes,
            script=text.script,
            max_output_tokens=None,
            n=0,
            body=body,
            service_tier=known.service_tier,
            user=known.user,
            size_bytes=len(raw),
            longest_bytes=longest,
        )

    def upstream_body(self, parsed: ParsedBody, rewrite: Rewrite) -> bytes:
        """Without what adapters add to a stream."""
        body = {name: value for name, value in parsed.body.items() if name not in _NO_STREAM}
        body["model"] = rewrite.upstream_model
        write_own_fields(body, rewrite)
        return msgspec.json.encode(body)

    def splitter(self) -> WholeBody:
        return WholeBody()

    def reader(self, parsed: ParsedBody, rewrite: Rewrite) -> EmbeddingsReader:
        return EmbeddingsReader(_inputs(parsed.body["input"]))

    def aggregator(self, parsed: ParsedBody) -> EmbeddingsAggregator:
        return EmbeddingsAggregator()

    def error_body(self, error: CallError, request_id: str) -> bytes:
        return errors.error_body(error)

    def error_event(self, error: CallError, request_id: str, *, next_event: int = 0) -> bytes:
        return errors.error_event(error)


def _prompts(known: EmbeddingsFields) -> Prompts:
    return known.input


def _inputs(prompts: Prompts) -> int:
    """How many vectors are asked for."""
    return 1 if isinstance(prompts, str) or type(prompts[0]) is int else len(prompts)


EMBEDDINGS: Final = EmbeddingsDialect()
