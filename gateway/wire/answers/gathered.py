"""Which events are gathered for a caller that did not ask for a stream, and how much is held?

Data that is an object; all else, such as an end marker, says nothing of the answer.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from gateway.core.errors import UpstreamError
from gateway.core.reasons import Reason
from gateway.wire.answers.events import NOT_AN_OBJECT
from gateway.wire.dialect import Frame

MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024  # of events, over one call


class Gathering:
    """One per call."""

    def __init__(self) -> None:
        self._size_bytes = 0

    def event(self, frame: Frame) -> dict[str, Any] | None:
        """None: nothing to gather. Raises UpstreamError. ``StreamReader.facts`` has seen that the
        event is an object; the whole may still be unreadable."""
        data = frame.data
        if data is None or not data.startswith(b"{"):
            return None
        self.hold(len(data))
        try:
            event: dict[str, Any] = msgspec.json.decode(data)
        except (msgspec.DecodeError, RecursionError):
            raise UpstreamError(Reason.UPSTREAM_ERROR, NOT_AN_OBJECT) from None
        return event

    def hold(self, size_bytes: int) -> None:
        """Counts what is kept. Raises UpstreamError."""
        self._size_bytes += size_bytes
        if self._size_bytes > MAX_ANSWER_BYTES:
            message = "The replica's answer is larger than the gateway holds."
            raise UpstreamError(Reason.UPSTREAM_ERROR, message, retryable=False)
