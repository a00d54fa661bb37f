"""``responses``: items in, items out, nothing stored; and ``responses/input_tokens``: the same
prompt, of which only the size is asked.

The replica gets the validated body, serialised anew, as a stream that it does not store. Its stream
always reports usage, so nothing is asked for that the caller would have to be spared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from gateway.core.errors import CallError
from gateway.wire import errors
from gateway.wire.answers.sse import SseSplitter
from gateway.wire.body import accepted
from gateway.wire.dialect import BodyBounds, ParsedBody, Rewrite
from gateway.wire.headers import EVENT_STREAM
from gateway.wire.request_fields import largest_cap
from gateway.wire.responses.aggregator import ResponseAggregator
from gateway.wire.responses.fields import (
    CountedFields,
    ResponsesFields,
    check_stateless,
    check_unstored,
)
from gateway.wire.responses.prompt_size import prompt_text
from gateway.wire.responses.reader import ResponsesStreamReader
from gateway.wire.upstream_request import write_own_fields

MAX_FRAME_BYTES: Final = 16 * 1024 * 1024  # events tell the request back, the last one the answer
_OF_OTHER_STREAMS: Final = ("stream_options",)


@dataclass(frozen=True, slots=True)
class ResponsesDialect:
    """Implements Dialect."""

    endpoint: str
    parse_body: Callable[[bytes, BodyBounds], ParsedBody]
    accept: str = EVENT_STREAM

    def parse(self, raw: bytes, bounds: BodyBounds) -> ParsedBody:
        return self.parse_body(raw, bounds)

    def upstream_body(self, parsed: ParsedBody, rewrite: Rewrite) -> bytes:
        extras = {k: v for k, v in rewrite.extras.items() if k not in _OF_OTHER_STREAMS}
        body = {**parsed.body, **extras, "model": rewrite.upstream_model}
        body.update(stream=True, store=False)
        write_own_fields(body, rewrite)
        if rewrite.max_tokens_if_absent is not None and body.get("max_output_tokens") is None:
            body["max_output_tokens"] = parsed.max_output_tokens or rewrite.max_tokens_if_absent
        return msgspec.json.encode(body)

    def splitter(self) -> SseSplitter:
        return SseSplitter(MAX_FRAME_BYTES)

    def reader(self, parsed: ParsedBody, rewrite: Rewrite) -> ResponsesStreamReader:
        return ResponsesStreamReader()

    def aggregator(self, parsed: ParsedBody) -> ResponseAggregator:
        return ResponseAggregator()

    def error_body(self, error: CallError, request_id: str) -> bytes:
        return errors.error_body(error)

    def error_event(self, error: CallError, request_id: str, *, next_event: int = 0) -> bytes:
        """The API's own event, which has no object inside."""
        told = errors.error_object(error)
        event = {name: told[name] for name in ("code", "message", "param")}
        event = {"type": "error", **event, "sequence_number": next_event}
        return b"event: error\ndata: " + msgspec.json.encode(event) + b"\n\n"


def _parse(raw: bytes, bounds: BodyBounds) -> ParsedBody:
    body, known = accepted(raw, bounds, ResponsesFields)
    check_unstored(known)
    return _parsed(
        body,
        known,
        n=1,
        stream=bool(known.stream),
        max_output_tokens=largest_cap(known.max_output_tokens, known.max_tokens, known.n_predict),
        service_tier=known.service_tier,
        user=known.user,
        size_bytes=len(raw),
    )


def _parse_counted(raw: bytes, bounds: BodyBounds) -> ParsedBody:
    """Fields that only a generation has are not looked at; nothing is generated."""
    body, known = accepted(raw, bounds, CountedFields)
    check_stateless(known)
    return _parsed(body, known, n=0, stream=False, max_output_tokens=None, size_bytes=len(raw))


def _parsed(body: dict[str, Any], known: CountedFields, **told: Any) -> ParsedBody:
    text = prompt_text(body)
    return ParsedBody(
        model=known.model,
        include_usage=True,
        prompt_bytes=text.size_bytes,
        script=text.script,
        body=body,
        has_media=text.has_media,
        **told,
    )


RESPONSES: Final = ResponsesDialect("responses", _parse)
INPUT_TOKENS: Final = ResponsesDialect("responses/input_tokens", _parse_counted)
