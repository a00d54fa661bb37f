"""Where does an answer end that is no stream? At the end of the body: it is one frame.

So an endpoint that answers with one piece of JSON runs through the same pipeline as a stream of one
event. Nothing of it is known before its end, and the whole is held, hence the bound.
"""

from __future__ import annotations

from typing import Final

from gateway.core.errors import UpstreamError
from gateway.core.reasons import Reason
from gateway.wire.dialect import Frame

MAX_BODY_BYTES: Final = 64 * 1024 * 1024


class AnswerOutgrown(UpstreamError):
    """The replica has done its work, but its answer is larger than what is held of one."""

    def __init__(self, most_bytes: int) -> None:
        message = f"The replica sent an answer of more than {most_bytes} bytes."
        super().__init__(Reason.UPSTREAM_ERROR, message, retryable=False, blames_replica=False)


class WholeBody:
    """Implements Splitter."""

    def __init__(self, max_bytes: int = MAX_BODY_BYTES) -> None:
        self._max_bytes = max_bytes
        self.pending: list[bytes] = []
        self._size_bytes = 0

    def feed(self, chunk: bytes) -> list[Frame]:
        self._size_bytes += len(chunk)
        if self._size_bytes > self._max_bytes:
            raise AnswerOutgrown(self._max_bytes)
        self.pending.append(chunk)
        return []

    def finish(self) -> list[Frame]:
        body = b"".join(self.pending)
        self.pending.clear()
        return [Frame(body, body)] if body else []
