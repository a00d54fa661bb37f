"""What does the JSON of one event of a Messages stream say, of the few members that the gateway
must know?

The type stands inside the data; the event's name only repeats it. Of an odd event each member that
fits its type counts.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from gateway.core.dispatch.effects import Usage
from gateway.wire.answers.events import Count, event_decoder, fitting, raw_of


class ReportedUsage(msgspec.Struct, gc=False):
    """``input_tokens`` excludes what was read from a cache and what was written into one."""

    input_tokens: Count | None = None
    cache_read_input_tokens: Count | None = None
    cache_creation_input_tokens: Count | None = None
    output_tokens: Count | None = None

    def onto(self, earlier: ReportedUsage) -> ReportedUsage:
        """What this one does not say, the earlier one has said: counts are cumulative. Another
        input without a word on caches is all of the prompt."""
        input_tokens, cached = self.input_tokens, self.cache_read_input_tokens
        created = self.cache_creation_input_tokens
        if cached is None and created is None and input_tokens in (None, earlier.input_tokens):
            cached = earlier.cache_read_input_tokens
            created = earlier.cache_creation_input_tokens
        return ReportedUsage(
            earlier.input_tokens if input_tokens is None else input_tokens,
            cached,
            created,
            earlier.output_tokens if self.output_tokens is None else self.output_tokens,
        )

    def as_usage(self) -> Usage:
        """The gateway's input is all of the prompt. What was written into a cache was computed, so
        only what was read counts as cached."""
        cached = self.cache_read_input_tokens or 0
        fresh = (self.input_tokens or 0) + (self.cache_creation_input_tokens or 0)
        return Usage(fresh + cached, cached, self.output_tokens or 0)


class Delta(msgspec.Struct, gc=False):
    type: str | None = None
    text: str | None = None
    thinking: str | None = None
    partial_json: str | None = None
    stop_reason: str | None = None


class ContentBlock(msgspec.Struct, gc=False):
    type: str | None = None
    text: str | None = None
    thinking: str | None = None
    data: str | None = None
    name: str | None = None


class StartedMessage(msgspec.Struct, gc=False):
    usage: ReportedUsage | None = None


class Event(msgspec.Struct, gc=False):
    type: str | None = None
    delta: Delta | None = None
    content_block: ContentBlock | None = None
    message: StartedMessage | None = None
    usage: ReportedUsage | None = None
    error: msgspec.Raw = msgspec.Raw()


def _untyped(told: dict[str, Any]) -> Event:
    message = told.get("message")
    usage = message.get("usage") if isinstance(message, dict) else None
    return Event(
        type=fitting(told.get("type"), str),
        delta=_members(told.get("delta"), Delta),
        content_block=_members(told.get("content_block"), ContentBlock),
        message=StartedMessage(_members(usage, ReportedUsage)),
        usage=_members(told.get("usage"), ReportedUsage),
        error=raw_of(told.get("error")),
    )


def _members(value: Any, shape: type[msgspec.Struct]) -> Any:
    """Those members of ``value`` that fit their types."""
    if not isinstance(value, dict):
        return None
    kept = {
        name: value[name]
        for name in shape.__struct_fields__
        if name in value and fitting({name: value[name]}, shape) is not None
    }
    return fitting(kept, shape)


decode_event: Final = event_decoder(Event, _untyped)
