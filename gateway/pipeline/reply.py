"""What has the caller been told so far? Open, then committed, then ended.

Open: nothing is sent, every status is still possible. Committed: a 200 and an event stream have
gone out; from then on a failure is an error event in the dialect of the call, never ``[DONE]``.
Ended: nothing more is sent, whatever happens.

Sends are serialised: a keep-alive comment and a frame of the relay never interleave. A send that
must wait (the caller reads slowly) holds back whoever sends, and through it the replica; one that
need not is done when its call returns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from enum import Enum, auto

from gateway.core.clock import Clock
from gateway.pipeline.caller import Caller, Head, Waits

Headers = Iterable[tuple[bytes, bytes]]

STREAM_HEADERS = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
)
JSON_HEADERS = ((b"content-type", b"application/json"), (b"cache-control", b"no-store"))


class Stage(Enum):
    OPEN = auto()
    COMMITTED = auto()
    ENDED = auto()


class Reply:
    """Who says something awaits what is returned, where there is something to wait for."""

    __slots__ = (
        "_caller",
        "_clock",
        "_free",
        "_since_s",
        "_waited_s",
        "spoke_s",
        "stage",
        "status",
    )

    def __init__(self, caller: Caller, clock: Clock) -> None:
        self._caller = caller
        self._clock = clock
        self._free: asyncio.Event | None = None  # of who finds a send under way
        self.stage = Stage.OPEN
        self.spoke_s = 0.0  # when the last bytes of the stream were handed over
        self.status = 0  # as sent; 0 while open
        self._waited_s = 0.0
        self._since_s: float | None = None  # a send waits

    @property
    def blocked(self) -> bool:
        """A send waits: silence is then the caller's doing, not the replica's."""
        return self._since_s is not None

    @property
    def waited_s(self) -> float:
        """How long sends have waited for the caller to read, in all."""
        if self._since_s is None:
            return self._waited_s
        return self._waited_s + self._clock.monotonic() - self._since_s

    def commit(self, headers: Callable[[], Headers], body: bytes = b"") -> Waits:
        """Starts the event stream; a second call only writes ``body``."""
        if self.stage is not Stage.OPEN:
            return self.write(body)
        self.stage, self.status = Stage.COMMITTED, 200
        return self._say(body, (200, [*STREAM_HEADERS, *headers()]))

    def write(self, body: bytes) -> Waits:
        """Only while committed; after the end it does nothing."""
        return self._say(body) if self.stage is Stage.COMMITTED and body else None

    def write_now(self, body: bytes, now_s: float) -> bool:
        """As ``write``, where that needs no waiting. False: nothing was written. ``body`` is not
        empty."""
        is_free = self.stage is Stage.COMMITTED and self._since_s is None
        if not is_free or not self._caller.say_now(body):
            return False
        self.spoke_s = now_s
        return True

    def finish(self, body: bytes = b"") -> Waits:
        """Ends a committed stream."""
        if self.stage is not Stage.COMMITTED:
            return None
        self.stage = Stage.ENDED
        return self._say(body, more=False)

    def answer(self, status: int, headers: Headers, body: bytes) -> Waits:
        """The whole answer at once; only while open."""
        assert self.stage is Stage.OPEN
        self.stage, self.status = Stage.ENDED, status
        length = (b"content-length", b"%d" % len(body))
        return self._say(body, (status, [*JSON_HEADERS, length, *headers]), more=False)

    def _say(self, body: bytes, head: Head | None = None, *, more: bool = True) -> Waits:
        if self._since_s is not None:
            return self._say_later(body, head, more=more)
        self.spoke_s = self._clock.monotonic()
        waits = self._caller.say(body, head, more=more)
        return None if waits is None else self._waiting(waits)

    async def _waiting(self, waits: Waits) -> None:
        self._since_s = self._clock.monotonic()
        try:
            if waits is not None:
                await waits
        finally:
            self._waited_s, self._since_s = self.waited_s, None
            if self._free is not None:
                self._free.set()

    async def _say_later(self, body: bytes, head: Head | None, *, more: bool) -> None:
        """Once nobody else waits."""
        while self._since_s is not None:
            self._free = self._free or asyncio.Event()
            self._free.clear()
            await self._free.wait()
        if (waits := self._say(body, head, more=more)) is not None:
            await waits
