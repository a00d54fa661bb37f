"""Where does one server-sent event end and the next begin, whatever the reads look like?

A frame is everything up to and including the blank line that ends an event. Invariants: the frames'
``raw``, joined, is the input byte for byte; the same input gives the same frames for every slicing.
Lines end in LF, CRLF or CR; blank lines before an event belong to the frame that follows them.

A frame that ends in LF CR at the end of a read waits for the next byte, which may be the LF of a
CRLF. After a line that ended in a lone CR nothing waits: a LF after the blank line then counts as
another blank line, which means the same.

Text is not decoded here, so invalid UTF-8 and NUL pass. A frame is bounded, which bounds each line
and the buffer. Source of the format: WHATWG HTML, section 9.2.
"""

from __future__ import annotations

import re
from typing import Final

from gateway.core.errors import UpstreamError
from gateway.core.reasons import Reason
from gateway.wire.dialect import Frame

MAX_FRAME_BYTES: Final = 1024 * 1024
_END_OF_FRAME: Final = re.compile(rb"(?<=[^\r\n])(?:(?:\r\n|\n)(?:\r\n|\n|\r)|\r\r)")
_LONGEST_END: Final = 4  # CR LF CR LF
_END_OF_LINE: Final = re.compile(rb"\r\n|\n|\r")
_BOM: Final = b"\xef\xbb\xbf"


class SseSplitter:
    """One per upstream stream."""

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._pending = bytearray()
        self._at_start = True
        self._too_long = False

    def feed(self, chunk: bytes) -> list[Frame]:
        """The frames that ``chunk`` completes. Raises UpstreamError once a frame is over the bound,
        after the frames before it have been returned."""
        if not (self._pending or self._at_start or self._too_long):
            frame = _single(chunk)
            if frame is not None and len(chunk) <= self._max_frame_bytes:
                return [frame]
        self._check()
        scan = max(0, len(self._pending) - _LONGEST_END)
        self._pending += chunk
        frames = self._take_complete(scan)
        self._too_long = self._too_long or len(self._pending) > self._max_frame_bytes
        if not frames:
            self._check()
        return frames

    def finish(self) -> list[Frame]:
        """The stream has ended: what is left is the last frame, even without its blank line."""
        self._check()
        rest = bytes(self._pending)
        self._pending.clear()
        return [self._frame(rest)] if rest else []

    def _take_complete(self, scan: int) -> list[Frame]:
        pending, start = self._pending, 0
        frames: list[Frame] = []
        while (end := _end_of_frame(pending, scan)) is not None:
            if end - start > self._max_frame_bytes:
                self._too_long = True
                break
            frames.append(self._frame(bytes(pending[start:end])))
            start = scan = end
        del pending[:start]
        return frames

    def _frame(self, raw: bytes) -> Frame:
        at_start, self._at_start = self._at_start, False
        if (frame := _single(raw)) is not None:
            return frame
        return _parsed(raw, raw[len(_BOM) :] if at_start and raw.startswith(_BOM) else raw)

    def _check(self) -> None:
        if self._too_long:
            message = f"The replica sent an event of more than {self._max_frame_bytes} bytes."
            raise UpstreamError(Reason.UPSTREAM_ERROR, message, retryable=False)


def _end_of_frame(pending: bytearray, scan: int) -> int | None:
    match = _END_OF_FRAME.search(pending, scan)
    if match is None or (match.end() == len(pending) and match.group().endswith(b"\n\r")):
        return None
    return match.end()


def _single(raw: bytes) -> Frame | None:
    """The common case without a loop: one data line that ends in LF LF, nothing else."""
    if not (raw.startswith(b"data: ") and raw.endswith(b"\n\n")) or b"\r" in raw:
        return None
    return Frame(raw, raw[6:-2]) if raw.find(b"\n") == len(raw) - 2 else None


def _parsed(raw: bytes, text: bytes) -> Frame:
    data: list[bytes] = []
    event: str | None = None
    only_comments = True
    for line in filter(None, _END_OF_LINE.split(text)):
        name, _, value = line.partition(b":")
        value = value[1:] if value.startswith(b" ") else value
        only_comments = only_comments and not name
        if name == b"data":
            data.append(value)
        elif name == b"event":
            event = value.decode("utf-8", "replace")
    return Frame(raw, b"\n".join(data) if data else None, event, only_comments)
