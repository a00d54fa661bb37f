"""``embeddings``: texts in, vectors out. Nothing is generated and nothing is streamed.

The replica answers with one piece of JSON, which goes to the caller as it came: base64 stays
base64. It counts as an answer when it holds one vector per input, and its prompt tokens are all
that it costs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from gateway.core.dispatch.effects import Usage
from gateway.core.errors import CallError, UpstreamError
from gateway.core.reasons import Reason
from gateway.wire import errors
from gateway.wire.body import check_refused, decode_object, invalid, known_fields
from gateway.wire.chunks import ReportedUsage, decode_chunk
from gateway.wire.dialect import BodyBounds, Frame, FrameFacts, ParsedBody, Rewrite
from gateway.wire.events import Garbled, decode_json, fitting, says
from gateway.wire.headers import JSON
from gateway.wire.hidden_errors import error_in
from gateway.wire.prompt_text import PromptText
from gateway.wire.prompts import Prompts, add_prompts
from gateway.wire.request_fields import Name, ShortText, TokenId
from gateway.wire.upstream_request import put
from gateway.wire.whole_body import WholeBody

MAX_INPUTS: Final = 2_048
_NO_STREAM: Final = ("stream", "stream_options")
_Text = Annotated[str, Meta(min_length=1)]
_TokenIds = Annotated[list[TokenId], Meta(min_length=1)]


class EmbeddingsFields(msgspec.Struct, kw_only=True):
    model: Name
    input: _Text | Annotated[list[_Text | TokenId | _TokenIds], Meta(min_length=1)]
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Annotated[int, Meta(ge=1, le=65_536)] | None = None
    user: ShortText | None = None
    service_tier: ShortText | None = None
    metadata: Annotated[dict[str, Any], Meta(max_length=16)] | None = None
    stream: bool | None = None


class _Answer(msgspec.Struct, gc=False):
    """What the gateway reads of an answer. Vectors are not decoded."""

    data: list[msgspec.Raw]
    usage: msgspec.Raw = msgspec.Raw()
    error: msgspec.Raw = msgspec.Raw()


_DECODER: Final = msgspec.json.Decoder(_Answer)


@dataclass(frozen=True, slots=True)
class EmbeddingsDialect:
    """Implements Dialect."""

    endpoint: str = "embeddings"
    accept: str = JSON

    def parse(self, raw: bytes, bounds: BodyBounds) -> ParsedBody:
        body = decode_object(raw, bounds)
        check_refused(body)
        known = known_fields(body, EmbeddingsFields)
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
        put(body, "cache_salt", rewrite.cache_salt)
        put(body, "priority", rewrite.priority)
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


class EmbeddingsReader:
    """Implements StreamReader: the one frame is the whole answer."""

    tokens: int = 0

    def __init__(self, inputs: int) -> None:
        self._inputs = inputs
        self._is_done = False
        self.usage: Usage | None = None
        self.finish_reason: str | None = None

    def is_complete(self, *, needs_done: bool = True) -> bool:
        return self._is_done

    def facts(self, frame: Frame) -> FrameFacts:
        try:
            answer = _decoded(frame.raw)
            if answer is None or says(answer.error):
                return FrameFacts(b"", error=_error(frame.raw))
            self.usage = _usage(answer)
        except Garbled:
            return FrameFacts(b"", error=_failed("The replica's answer is not a JSON object."))
        if len(answer.data) != self._inputs:
            return FrameFacts(b"", error=_miscounted())
        self._is_done, self.finish_reason = True, "stop"
        return FrameFacts(
            frame.raw,
            has_content=True,
            finish_reason=self.finish_reason,
            usage=self.usage,
            is_done=True,
        )


class EmbeddingsAggregator:
    """Implements Aggregator. The API has no place for a service tier in its answer."""

    def __init__(self) -> None:
        self._answer = b""

    def feed(self, frame: Frame) -> None:
        self._answer = frame.raw

    def result(self, *, service_tier: str | None = None) -> bytes:
        return self._answer


def _prompts(known: EmbeddingsFields) -> Prompts:
    return known.input


def _inputs(prompts: Prompts) -> int:
    """How many vectors are asked for."""
    return 1 if isinstance(prompts, str) or type(prompts[0]) is int else len(prompts)


def _decoded(raw: bytes) -> _Answer | None:
    """None: JSON, but no list of vectors. Raises Garbled."""
    try:
        return _DECODER.decode(raw)
    except msgspec.ValidationError:
        return None
    except (msgspec.DecodeError, RecursionError):
        raise Garbled from None


def _usage(answer: _Answer) -> Usage | None:
    """Of the prompt alone; what a server says of an output here is not believed."""
    reported = fitting(decode_json(answer.usage), ReportedUsage) if says(answer.usage) else None
    if reported is None:
        return None
    usage: Usage = reported.as_usage()
    return Usage(usage.input_tokens, usage.cached_tokens, 0)


def _error(raw: bytes) -> UpstreamError:
    """Raises Garbled."""
    return error_in(decode_chunk(raw), raw) or _failed("The replica's answer has no embeddings.")


def _miscounted() -> UpstreamError:
    """Servers differ in what a list of numbers is, so the request may be the reason."""
    message = "The replica did not give one vector for every input."
    return UpstreamError(Reason.UPSTREAM_ERROR, message, blames_replica=False)


def _failed(message: str) -> UpstreamError:
    return UpstreamError(Reason.UPSTREAM_ERROR, message)


EMBEDDINGS: Final = EmbeddingsDialect()
