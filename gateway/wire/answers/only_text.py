"""Is this event the same as the last one, but for its text?

The events of a stream mostly differ in one string. Once an event has been read in full, the bytes
before and behind the literal of its text are kept; an event with the same bytes around a legal
string literal says the same with another text, and needs no reading. That the literal is the text,
and no like-looking other one, is proven when it is kept: a probe is put in its place and read.

Invariants: ``text`` answers only for the event after the one that was kept, or after one that it
answered for, so nothing that accumulates is missed; what it does not know is read as ever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

MOST_TRIES: Final = 8  # per stream, so that events that always differ are not probed for ever
PROBE: Final = "\u0001 probe \u0001"
_decode_text: Final = msgspec.json.Decoder(str).decode
_encode: Final = msgspec.json.encode


class OnlyText:
    """One per stream and reader. ``text_in``: the text of an event that has nothing else to say,
    by the full reading; None for any other event. It may raise ValueError."""

    def __init__(self, text_in: Callable[[bytes], str | None]) -> None:
        self._text_in = text_in
        self._tries = 0
        self._before = self._behind = b""

    def text(self, data: bytes) -> str | None:
        """Never empty. None: read it, then ``keep`` it."""
        before, behind = self._before, self._behind
        if before and data.startswith(before) and data.endswith(behind):
            try:
                return _decode_text(data[len(before) : len(data) - len(behind)]) or None
            except msgspec.DecodeError:
                pass
        return None

    def keep(self, data: bytes, text: str | None) -> None:
        """``text``: what ``text_in`` found in ``data``."""
        self._before = b""
        if not text or self._tries >= MOST_TRIES:
            return
        self._tries += 1
        written = _encode(text)
        if data.count(written) != 1:
            return
        start = data.index(written)
        before, behind = data[:start], data[start + len(written) :]
        try:
            proven = self._text_in(before + _encode(PROBE) + behind) == PROBE
        except ValueError:
            return
        if proven:
            self._before, self._behind = before, behind
