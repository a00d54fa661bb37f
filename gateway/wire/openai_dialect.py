"""What do the two OpenAI text endpoints share? All but the request's fields and a choice's
shape."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gateway.core.errors import CallError
from gateway.wire import errors
from gateway.wire.answers import AnswerAggregator, FinishChoice
from gateway.wire.dialect import BodyBounds, ParsedBody, Rewrite
from gateway.wire.headers import EVENT_STREAM
from gateway.wire.sse import SseSplitter
from gateway.wire.stream_reader import OpenAiStreamReader
from gateway.wire.upstream_request import upstream_body


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
        return upstream_body(parsed, rewrite)

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
