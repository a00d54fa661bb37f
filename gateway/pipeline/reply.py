"""What has the caller been told so far? Open, then committed, then ended.

Open: nothing is sent, every status is still possible. Committed: a 200 and an event stream have
gone out; from then on a failure is an error event in the dialect of the call, never ``[DONE]``.
Ended: nothing more is sent, whatever happens.

Sends are serialised: a keep-alive comment and a frame of the relay never interleave. A send that
must wait (the caller reads slowly) holds back whoever sends, and through it the replica.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from enum import Enum, auto
from typing import Any

from gateway.core.clock import Clock

Send = Callable[[dict[str, Any]], Awaitable[None]]
WriteNow = Callable[[bytes], bool]  # more of a body that has begun; False: not without waiting
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
    def __init__(self, send: Send, clock: Clock, write_now: WriteNow | None = None) -> None:
        """``write_now`` None: only ``send`` writes."""
        self._send = send
        self._write_now = write_now
        self._clock = clock
        self._free = asyncio.Event()  # asked for only by who finds a send under way
        self.stage = Stage.OPEN
        self.spoke_s = 0.0  # when the last bytes of the stream were handed over
        self.status = 0  # as sent; 0 while open
        self._waited_s = 0.0
        self._since_s: float | None = None  # a send is under way

    @property
    def blocked(self) -> bool:
        """A send is under way: silence is then the caller's doing, not the replica's."""
        return self._since_s is not None

    @property
    def waited_s(self) -> float:
        """How long sends have waited for the caller to read, in all."""
        if self._since_s is None:
            return self._waited_s
        return self._waited_s + self._clock.monotonic() - self._since_s

    async def commit(self, headers: Callable[[], Headers], body: bytes = b"") -> None:
        """Starts the event stream; a second call only writes ``body``."""
        if self.stage is not Stage.OPEN:
            await self.write(body)
            return
        self.stage, self.status = Stage.COMMITTED, 200
        start = _start(200, (*STREAM_HEADERS, *headers()))
        await self._hand_over(start, *([_body(body, more=True)] if body else []))

    async def write(self, body: bytes) -> None:
        """Only while committed; after the end it does nothing."""
        if self.stage is Stage.COMMITTED and body:
            while self._since_s is not None:
                await self._until_free()
            self._since_s = self.spoke_s = self._clock.monotonic()
            try:
                await self._send(_body(body, more=True))
            finally:
                self._handed_over()

    def write_now(self, body: bytes, now_s: float) -> bool:
        """As ``write``, where that needs no waiting. False: nothing was written. ``body`` is not
        empty."""
        is_free = self.stage is Stage.COMMITTED and self._since_s is None
        if self._write_now is None or not is_free or not self._write_now(body):
            return False
        self.spoke_s = now_s
        return True

    async def finish(self, body: bytes = b"") -> None:
        """Ends a committed stream."""
        if self.stage is Stage.COMMITTED:
            self.stage = Stage.ENDED
            await self._hand_over(_body(body, more=False))

    async def answer(self, status: int, headers: Headers, body: bytes) -> None:
        """The whole answer at once; only while open."""
        assert self.stage is Stage.OPEN
        self.stage, self.status = Stage.ENDED, status
        length = (b"content-length", str(len(body)).encode())
        start = _start(status, (*JSON_HEADERS, length, *headers))
        await self._hand_over(start, _body(body, more=False))

    async def _hand_over(self, *messages: dict[str, Any]) -> None:
        """All of them before anyone else's."""
        while self._since_s is not None:
            await self._until_free()
        self._since_s = self.spoke_s = self._clock.monotonic()
        try:
            for message in messages:
                await self._send(message)
        finally:
            self._handed_over()

    async def _until_free(self) -> None:
        self._free.clear()
        await self._free.wait()

    def _handed_over(self) -> None:
        self._waited_s, self._since_s = self.waited_s, None
        self._free.set()


def _start(status: int, headers: Headers) -> dict[str, Any]:
    return {"type": "http.response.start", "status": status, "headers": list(headers)}


def _body(body: bytes, *, more: bool) -> dict[str, Any]:
    return {"type": "http.response.body", "body": body, "more_body": more}
