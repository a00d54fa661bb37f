"""How does a stream become the answer of a caller that did not ask for one? Its last event holds
the whole response.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from gateway.core.errors import UpstreamError
from gateway.core.reasons import Reason
from gateway.wire.answers.events import NOT_AN_OBJECT, Garbled, decode_json
from gateway.wire.dialect import Frame
from gateway.wire.responses.reader import ENDS

_MARKS: Final = tuple(kind.encode() for kind in sorted(ENDS))


class _End(msgspec.Struct, gc=False):
    type: str | None = None
    response: msgspec.Raw = msgspec.Raw()


_DECODER: Final = msgspec.json.Decoder(_End)


class ResponseAggregator:
    """Implements Aggregator."""

    def __init__(self) -> None:
        self._response = b""

    def repeat(self, texts: Sequence[str], size_bytes: int) -> bool:
        return False

    def feed(self, frame: Frame) -> None:
        data = frame.data
        if data is None or not (_mentions_end(data) or frame.event in ENDS):
            return
        try:
            event = _DECODER.decode(data)
            if (event.type or frame.event) in ENDS and not self._response:
                decode_json(event.response)  # the whole of it must be readable to a client
                self._response = bytes(event.response)
        except (Garbled, msgspec.DecodeError, RecursionError):
            raise UpstreamError(Reason.UPSTREAM_ERROR, NOT_AN_OBJECT) from None

    def result(self, *, service_tier: str | None = None) -> bytes:
        """As it came, but for the tier."""
        if service_tier is None:
            return self._response
        return msgspec.json.encode({**decode_json(self._response), "service_tier": service_tier})


def _mentions_end(data: bytes) -> bool:
    return any(mark in data for mark in _MARKS)
