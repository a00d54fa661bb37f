"""What does the JSON of one event say, of the few fields that the gateway must know?

The typed decode skips the rest, and with it the request that a server tells back in its first and
last events. What does not fit the types is read again without types, so that an odd field is
never an error; what is not JSON, or no object, is ``Garbled``.
"""

from __future__ import annotations

from typing import Any

import msgspec

from gateway.core.dispatch.effects import Usage
from gateway.wire.chunks import Count, Garbled, PromptDetails, Timings, decode_json, fitting


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
    delta: str | None = None
    response: Response | None = None
    timings: Timings | None = None
    error: msgspec.Raw = msgspec.Raw()


_DECODER = msgspec.json.Decoder(Event)


def decode_event(data: bytes) -> Event:
    """Raises Garbled."""
    try:
        return _DECODER.decode(data)
    except msgspec.ValidationError:
        return _untyped(data)
    except (msgspec.DecodeError, RecursionError):
        raise Garbled from None


def _untyped(data: bytes) -> Event:
    event = decode_json(data)
    if not isinstance(event, dict):
        raise Garbled
    delta, response = event.get("delta"), event.get("response")
    return Event(
        type=fitting(event.get("type"), str),
        sequence_number=fitting(event.get("sequence_number"), Count),
        delta=delta if isinstance(delta, str) else _json(delta) if delta else None,
        response=_response(response) if isinstance(response, dict) else None,
        timings=fitting(event.get("timings"), Timings),
        error=_raw(event.get("error")),
    )


def _response(response: dict[str, Any]) -> Response:
    return Response(
        status=fitting(response.get("status"), str),
        usage=fitting(response.get("usage"), ReportedUsage),
        incomplete_details=fitting(response.get("incomplete_details"), IncompleteDetails),
        error=_raw(response.get("error")),
    )


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value)) if value is not None else msgspec.Raw()
