"""What does the JSON of one event say, of the few fields that the gateway must know?

The rest is skipped, and with it the request that a server tells back in its first and last events.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from gateway.core.dispatch.effects import Usage
from gateway.wire.answers.chunks import PromptDetails, Timings
from gateway.wire.answers.events import Count, event_decoder, fitting, raw_of, text_of


class ReportedUsage(msgspec.Struct, gc=False):
    """Reasoning tokens are among the output tokens."""

    input_tokens: Count = 0
    output_tokens: Count = 0
    input_tokens_details: PromptDetails | None = None

    def as_usage(self) -> Usage:
        details = self.input_tokens_details
        cached = (details.cached_tokens or 0) if details else 0
        return Usage(self.input_tokens, min(cached, self.input_tokens), self.output_tokens)


class IncompleteDetails(msgspec.Struct, gc=False):
    reason: str | None = None


class Response(msgspec.Struct, gc=False):
    status: str | None = None
    usage: ReportedUsage | None = None
    incomplete_details: IncompleteDetails | None = None
    error: msgspec.Raw = msgspec.Raw()


class Event(msgspec.Struct, gc=False):
    type: str | None = None
    sequence_number: Count | None = None
    output_index: Count | None = None
    content_index: Count | None = None
    delta: str | None = None
    response: Response | None = None
    timings: Timings | None = None
    error: msgspec.Raw = msgspec.Raw()


def _untyped(event: dict[str, Any]) -> Event:
    response = event.get("response")
    return Event(
        type=fitting(event.get("type"), str),
        sequence_number=fitting(event.get("sequence_number"), Count),
        output_index=fitting(event.get("output_index"), Count),
        content_index=fitting(event.get("content_index"), Count),
        delta=text_of(event.get("delta")),
        response=_response(response) if isinstance(response, dict) else None,
        timings=fitting(event.get("timings"), Timings),
        error=raw_of(event.get("error")),
    )


def _response(response: dict[str, Any]) -> Response:
    return Response(
        status=fitting(response.get("status"), str),
        usage=fitting(response.get("usage"), ReportedUsage),
        incomplete_details=fitting(response.get("incomplete_details"), IncompleteDetails),
        error=raw_of(response.get("error")),
    )


decode_event: Final = event_decoder(Event, _untyped)
