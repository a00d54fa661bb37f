"""``messages``, and ``messages/count_tokens``: the same prompt, of which only the size is asked.

The replica gets the validated body, serialised anew, as a stream. What adapters add to bodies of
the OpenAI dialects for the sake of usage is left out: a stream of messages always reports it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from gateway.core.errors import CallError
from gateway.wire.answers.sse import SseSplitter
from gateway.wire.body import accepted, invalid
from gateway.wire.dialect import BodyBounds, ParsedBody, Rewrite
from gateway.wire.headers import EVENT_STREAM
from gateway.wire.messages import errors
from gateway.wire.messages.aggregator import MessageAggregator
from gateway.wire.messages.fields import NEEDED, Block, CountedFields, MessagesFields
from gateway.wire.messages.prompt_size import prompt_text
from gateway.wire.messages.reader import MessagesStreamReader
from gateway.wire.upstream_request import write_own_fields

_OF_OTHER_STREAMS: Final = ("stream_options", "timings_per_token")


@dataclass(frozen=True, slots=True)
class MessagesDialect:
    """Implements Dialect."""

    endpoint: str
    parse_body: Callable[[bytes, BodyBounds], ParsedBody]
    accept: str = EVENT_STREAM

    def parse(self, raw: bytes, bounds: BodyBounds) -> ParsedBody:
        return self.parse_body(raw, bounds)

    def upstream_body(self, parsed: ParsedBody, rewrite: Rewrite) -> bytes:
        extras = {k: v for k, v in rewrite.extras.items() if k not in _OF_OTHER_STREAMS}
        body = {**parsed.body, **extras, "model": rewrite.upstream_model, "stream": True}
        write_own_fields(body, rewrite)
        return msgspec.json.encode(body)

    def splitter(self) -> SseSplitter:
        return SseSplitter()

    def reader(self, parsed: ParsedBody, rewrite: Rewrite) -> MessagesStreamReader:
        return MessagesStreamReader()

    def aggregator(self, parsed: ParsedBody) -> MessageAggregator:
        return MessageAggregator(parsed.model)

    def error_body(self, error: CallError, request_id: str) -> bytes:
        return errors.error_body(error, request_id)

    def error_event(self, error: CallError, request_id: str, *, next_event: int = 0) -> bytes:
        return errors.error_event(error, request_id)


def _parse(raw: bytes, bounds: BodyBounds) -> ParsedBody:
    body, known = accepted(raw, bounds, MessagesFields)
    metadata = known.metadata
    return _parsed(
        body,
        known,
        n=1,
        stream=bool(known.stream),
        max_output_tokens=known.max_tokens,
        service_tier=known.service_tier,
        user=metadata.user_id if metadata is not None else None,
        size_bytes=len(raw),
    )


def _parse_counted(raw: bytes, bounds: BodyBounds) -> ParsedBody:
    """Fields that only a generation has are not looked at; nothing is generated."""
    body, known = accepted(raw, bounds, CountedFields)
    return _parsed(body, known, n=0, stream=False, max_output_tokens=None, size_bytes=len(raw))


def _parsed(body: dict[str, Any], known: CountedFields, **told: Any) -> ParsedBody:
    """Raises Rejected where the fields contradict each other."""
    _check_blocks(known)
    choice = known.tool_choice
    if choice is not None and choice.type == "tool" and choice.name is None:
        raise invalid("The field `tool_choice.name` is missing.", "tool_choice.name")
    thinking = known.thinking
    if thinking is not None and thinking.type == "enabled" and thinking.budget_tokens is None:
        place = "thinking.budget_tokens"
        raise invalid(f"The field `{place}` is missing.", place)
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


def _check_blocks(known: CountedFields) -> None:
    for number, message in enumerate(known.messages):
        if isinstance(message.content, list):
            _check_content(message.content, f"messages[{number}].content")
    if isinstance(known.system, list):
        _check_content(known.system, "system")


def _check_content(blocks: list[Block], place: str) -> None:
    for number, block in enumerate(blocks):
        for name in NEEDED.get(block.type, ()):
            if getattr(block, name) is None:
                path = f"{place}[{number}].{name}"
                raise invalid(f"The field `{path}` is missing.", path)


MESSAGES: Final = MessagesDialect("messages", _parse)
COUNT_TOKENS: Final = MessagesDialect("messages/count_tokens", _parse_counted)
