"""Are these events the same as the last one, but for their text?

The events of a stream mostly differ in one string. Once an event has been read in full, the bytes
before and behind the literal of its text are kept, from the first byte of the event to its last; an
event with the same bytes around a legal string literal says the same with another text, and needs
neither splitting into lines nor reading. That the literal is the text, and no like-looking other
one, is proven when it is kept: a probe is put in its place and read.

Invariants: ``texts`` answers only for events behind the one that was kept, or behind one that it
answered for, so nothing that accumulates is missed; what it does not know is read as ever. A legal
literal holds no line end, so what it answers for is one whole event.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from gateway.wire.dialect import Frame

MOST_TRIES: Final = 8  # per stream, so that events that always differ are not probed for ever
PROBE: Final = "\u0001 probe \u0001"
_BEGINNINGS: Final = (b"data:", b"event:")
_ENDS: Final = (b"\n\n", b"\r\n\r\n")
_decode_text: Final = msgspec.json.Decoder(str).decode
_encode: Final = msgspec.json.encode


class OnlyText:
    """One per stream and reader. ``text_in``: the text of an event that has nothing else to say,
    by the full reading; None for any other event. It may raise ValueError."""

    def __init__(self, text_in: Callable[[bytes], str | None]) -> None:
        self._text_in = text_in
        self._tries = 0
        self._before = self._behind = b""  # of a whole event, with the quotes

    def texts(self, events: Sequence[bytes], start: int = 0) -> list[str]:
        """Of as many ``events`` from ``start`` on as are the last one but for their text; none of
        them empty. The next event must be read, and then be kept."""
        before, behind = self._before, self._behind
        texts: list[str] = []
        if not before:
            return texts
        begin, end = len(before) - 1, 1 - len(behind)  # of the literal, with its quotes
        for event in events[start:] if start else events:
            if not (event.startswith(before) and event.endswith(behind)):
                break
            try:
                text = _decode_text(event[begin:end])
            except msgspec.DecodeError:
                break
            if not text:
                break
            texts.append(text)
        return texts

    def keep(self, frame: Frame, text: str | None) -> None:
        """``text``: what ``text_in`` found in its data."""
        self._before = b""
        data = frame.data
        if not text or data is None or self._tries >= MOST_TRIES:
            return
        self._tries += 1
        written = _encode(text)
        if data.count(written) != 1:
            return
        head, its, end = frame.raw.rpartition(data)
        start = data.index(written)
        before, behind = data[:start], data[start + len(written) :]
        is_plain = its and head.startswith(_BEGINNINGS) and end in _ENDS
        if is_plain and self._is_text(before, behind):
            self._before, self._behind = head + before + b'"', b'"' + behind + end

    def _is_text(self, before: bytes, behind: bytes) -> bool:
        try:
            return self._text_in(before + _encode(PROBE) + behind) == PROBE
        except ValueError:
            return False
