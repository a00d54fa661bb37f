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
    """One per upstream stream. ``pending``: of an event whose end has not come yet."""

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self._max_frame_bytes = max_frame_bytes
        self.pending = bytearray()
        self._at_start = True
        self._too_long = False

    def feed(self, chunk: bytes) -> list[Frame]:
        """The frames that ``chunk`` completes. Raises UpstreamError once a frame is over the bound,
        after the frames before it have been returned."""
        if not (self.pending or self._too_long) and len(chunk) <= self._max_frame_bytes:
            frames = _simple(chunk)
            if frames is not None:
                self._at_start = False
                return frames
        self._check()
        scan = max(0, len(self.pending) - _LONGEST_END)
        text: bytes | bytearray = chunk
        if self.pending:
            self.pending += chunk
            text = self.pending
        frames, taken = self._take_complete(text, scan)
        if text is chunk:
            self.pending += chunk[taken:]
        else:
            del self.pending[:taken]
        self._too_long = self._too_long or len(self.pending) > self._max_frame_bytes
        if not frames:
            self._check()
        return frames

    def finish(self) -> list[Frame]:
        """The stream has ended: what is left is the last frame, even without its blank line."""
        self._check()
        rest = bytes(self.pending)
        self.pending.clear()
        return [self._frame(rest)] if rest else []

    def _take_complete(self, text: bytes | bytearray, scan: int) -> tuple[list[Frame], int]:
        """The complete frames and how many bytes they are."""
        frames: list[Frame] = []
        start, end_mark = 0, _end_mark(text, scan)
        while (end := _end_of_frame(text, scan, end_mark)) is not None:
            if end - start > self._max_frame_bytes:
                self._too_long = True
                break
            frames.append(self._frame(bytes(text[start:end])))
            start = scan = end
        return frames, start

    def _frame(self, raw: bytes) -> Frame:
        at_start, self._at_start = self._at_start, False
        if (frame := _single(raw)) is not None:
            return frame
        return _parsed(raw, raw[len(_BOM) :] if at_start and raw.startswith(_BOM) else raw)

    def _check(self) -> None:
        if self._too_long:
            message = f"The replica sent an event of more than {self._max_frame_bytes} bytes."
            raise UpstreamError(Reason.UPSTREAM_ERROR, message, retryable=False)


def _end_mark(text: bytes | bytearray, scan: int) -> bytes | None:
    """What ends every frame from ``scan`` on, if all lines there end alike; None = they do not."""
    returns = text.count(b"\r", scan)
    if not returns:
        return b"\n\n"
    alike = returns == text.count(b"\r\n", scan) == text.count(b"\n", scan)
    return b"\r\n\r\n" if alike else None


def _end_of_frame(text: bytes | bytearray, scan: int, end_mark: bytes | None) -> int | None:
    """The mark is searched at native speed; blank lines before a frame, and mixed line ends, take
    the expression."""
    if end_mark is not None:
        found = text.find(end_mark, scan)
        if found < 0:
            return None
        if found and text[found - 1] not in b"\r\n":
            return found + len(end_mark)
    match = _END_OF_FRAME.search(text, scan)
    if match is None or (match.end() == len(text) and match.group().endswith(b"\n\r")):
        return None
    return match.end()


def _simple(chunk: bytes) -> list[Frame] | None:
    """The common cases of one whole read: an event as ``_single`` reads it, or several of one data
    line each."""
    frame = _single(chunk)
    if frame is not None:
        return [frame]
    if not (chunk.startswith(b"data: ") and chunk.endswith(b"\n\n")) or b"\r" in chunk:
        return None
    events = chunk[:-2].split(b"\n\n")
    others = len(events) - 1
    if chunk.count(b"\n\ndata: ") != others or chunk.count(b"\n") != 2 * others + 2:
        return None
    return [Frame(event + b"\n\n", event[6:]) for event in events]


def _single(raw: bytes) -> Frame | None:
    """The common cases without a loop: one data line that ends in LF LF, perhaps after the line
    that names the event, nothing else."""
    start, event = 0, None
    if raw.startswith(b"event: "):
        start = raw.find(b"\n") + 1
        event = raw[7 : start - 1]
    if not (raw.startswith(b"data: ", start) and raw.endswith(b"\n\n")) or b"\r" in raw:
        return None
    if raw.find(b"\n", start) != len(raw) - 2:
        return None
    if event is None:
        return Frame(raw, raw[6:-2])
    return Frame(raw, raw[start + 6 : -2], event.decode("utf-8", "replace"))


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
