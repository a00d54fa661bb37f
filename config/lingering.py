"""Does the last answer reach a peer that is still sending?

A socket that is closed with unread bytes resets its peer, and the answer is lost on the way. So a
connection is closed in two steps: our side at once, which the peer reads as the end of the answer;
the rest once the peer has closed too, at the latest LINGER_S after the answer is with the system.
What comes meanwhile is thrown away, up to LINGER_BYTES; beyond that it is not read.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

LINGER_S: Final = 1.0
LINGER_BYTES: Final = 64 * 1024


class Lingering:
    """A transport whose ``close`` waits for the peer while ``unread`` says that it still sends.
    Whatever else is asked of it is the transport's."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self.write = transport.write  # not looked for anew with each piece of an answer
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._left_bytes = LINGER_BYTES
        self.lingers = False  # closed on our side alone
        self.unread = False  # the peer has not sent all of its request, or more than one

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        return self.lingers or bool(self._transport.is_closing())

    def close(self) -> None:
        if self.is_closing():
            return
        if not self.unread or not self._transport.can_write_eof():
            self._transport.close()
            return
        self.lingers = True
        self._transport.write_eof()
        self._transport.resume_reading()
        self._wait()

    def _wait(self) -> None:
        self._timer = self._loop.call_later(LINGER_S, self._end)

    def _end(self) -> None:
        if self._transport.get_write_buffer_size():
            self._wait()
        else:
            self._transport.abort()

    def dropped(self, size: int) -> None:
        """So many bytes came while it was closing."""
        self._left_bytes -= size
        if self._left_bytes < 0:
            self._transport.pause_reading()

    def ended(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
