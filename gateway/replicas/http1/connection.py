"""One socket to a replica: what has been asked, and what has come of the answer?

An asyncio protocol around a strict parser, one exchange at a time. What comes of a body goes to
whoever takes it in the very read in which it comes, so that a token wakes no task. What is not
taken is held, and reading stops while more than ``MOST_HELD_BYTES`` are. One timer per connection
watches whoever waits; a wait, and a read, only moves its limit, so that a token costs no timer.

Bounds: a head of HEADERS fields and HEAD_BYTES, INTERIM interim answers (1xx) before it, and
HEAD_BYTES of chunk extensions or trailers without any body. Beyond one of them, and where what
comes is not HTTP, the answer ends with ``NotHttp`` or the parser's error. The end of the connection
ends a body that names no length; any other body is then cut (ConnectionResetError).

After each exchange ``is_reusable`` says whether the connection may be asked again: the answer had
ended, the server keeps it, and nothing came that was not asked for. Units: bytes, seconds of the
loop's clock.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable
from enum import Enum, auto
from typing import Final, cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

HEAD_BYTES: Final = 64 * 1024
HEADERS: Final = 128
INTERIM: Final = 10_000
MOST_HELD_BYTES: Final = 64 * 1024
SENT_WITH_HEAD_BYTES: Final = 64 * 1024  # a longer body is not copied behind its head
KEPT_FIELDS: Final = frozenset(
    (
        b"content-type",
        b"content-encoding",
        b"content-length",
        b"transfer-encoding",
        b"retry-after",
    )
)
NO_BODY: Final = frozenset({204, 304})

Take = Callable[[bytes], bool]  # False: whoever waits goes on


class NotHttp(ValueError):
    """The answer is beyond a bound, or more than one answer came."""


class Stage(Enum):
    IDLE = auto()
    HEAD = auto()
    BODY = auto()
    ENDED = auto()


class Connection(asyncio.Protocol):
    """``on_lost`` is told once, when the socket is gone."""

    def __init__(self, on_lost: Callable[[Connection], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_lost = on_lost
        self._transport: asyncio.Transport
        self._unread = select.poll()
        self._stage = Stage.IDLE
        self._keeps = self._is_paused = self._until_close = False
        self._error: BaseException | None = None
        self._fields = self._field_bytes = self._interim = 0
        self._silent_bytes = self._held_bytes = 0  # read without any body; waiting to be taken
        self._pieces: list[bytes] = []
        self._waiter: asyncio.Future[None] | None = None
        self._take: Take | None = None  # who waits takes what comes
        self._idle_s = self._until_s = self._timer_at_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self.status = 0
        self.headers: dict[bytes, bytes] = {}  # KEPT_FIELDS; values of a repeated one are joined
        self.on_body = self._pieces.append  # what the parser calls, without a frame of ours
        self._parser = HttpResponseParser(self)

    @property
    def is_lost(self) -> bool:
        return self._error is not None or self._transport.is_closing()

    @property
    def has_ended(self) -> bool:
        """The whole answer has come."""
        return self._stage is Stage.ENDED

    @property
    def is_reusable(self) -> bool:
        over = self._stage is Stage.ENDED and self._keeps
        return over and not (self._is_paused or self.is_lost)

    @property
    def is_quiet(self) -> bool:
        """Asked of a kept connection: the server has neither left nor said anything meanwhile."""
        return not self.is_lost and not self._unread.poll(0)

    async def ask(self, head: bytes, body: bytes, until_s: float) -> None:
        """Sends a request and returns when ``status`` and ``headers`` of its answer are there.
        Raises TimeoutError, OSError, ValueError or the parser's error."""
        if self.is_lost:
            raise self._error or ConnectionResetError("the connection was closed")
        self._begin()
        if len(body) <= SENT_WITH_HEAD_BYTES:
            self._transport.write(head + body)
        else:
            self._transport.writelines((head, body))
        while self._stage is Stage.HEAD:
            if self._error is not None:
                raise self._error
            await self._news(until_s)

    async def read(self, idle_s: float) -> bytes:
        """What has come since the last time, never nothing; b"" is the clean end of the body.
        Raises like ``ask``, after what had come before."""
        while not self._pieces:
            if self._stage is Stage.ENDED:
                return b""
            if self._error is not None:
                raise self._error
            await self._news(self._loop.time() + idle_s)
        return self._next_piece()

    async def relay(self, take: Take, idle_s: float) -> bool:
        """Gives what comes to ``take``, read by read, until it says False: then True, and what
        comes meanwhile is held for the next ``relay``. False: the clean end of the body. ``take``
        must not raise. Raises like ``read``."""
        while True:
            while self._pieces:
                if not take(self._next_piece()):
                    return True
            if self._stage is Stage.ENDED:
                return False
            if self._error is not None:
                raise self._error
            self._take, self._idle_s = take, idle_s
            try:
                await self._news(self._loop.time() + idle_s)
                if self._take is None:
                    return True
            finally:
                self._take = None

    def abort(self) -> None:
        """Closes the socket at once."""
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._unread.register(transport.get_extra_info("socket").fileno(), select.POLLIN)

    def data_received(self, data: bytes) -> None:
        if self._stage is Stage.IDLE or self._error is not None:
            self.abort()
            return
        pieces = self._pieces
        held = len(pieces)
        self._silent_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            self._fail(error)
            return
        if len(pieces) > held:
            self._silent_bytes = 0
            take, waiter = self._take, self._waiter
            if take is None or waiter is None or waiter.done():
                self._hold(len(data))
            else:
                self._until_s = self._loop.time() + self._idle_s
                if not take(pieces.pop() if len(pieces) == 1 else self._next_piece()):
                    self._take = None
        elif self._silent_bytes > HEAD_BYTES:
            self._fail(NotHttp("too much of an answer before any of its body"))
            return
        if self._stage is Stage.ENDED or (self._stage is Stage.BODY and self._take is None):
            self._wake()

    def _hold(self, size_bytes: int) -> None:
        """For a later ``read`` or ``relay``: nobody waits, or who did was told to stop waiting."""
        self._held_bytes += size_bytes
        if self._held_bytes > MOST_HELD_BYTES and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._stage is Stage.BODY and self._until_close and exc is None:
            self._stage = Stage.ENDED
        elif self._error is None:
            self._error = exc or ConnectionResetError("the connection was closed")
        self._keeps = False
        if self._timer is not None:
            self._timer.cancel()
        self._wake()
        self._on_lost(self)
        del self._parser, self.on_body  # they refer to this object

    def on_message_begin(self) -> None:
        if self._stage is Stage.ENDED:
            raise NotHttp("more than one answer")

    def on_header(self, name: bytes, value: bytes) -> None:
        self._fields += 1
        self._field_bytes += len(name) + len(value)
        if self._fields > HEADERS or self._field_bytes > HEAD_BYTES:
            raise NotHttp("too large a head")
        if self._stage is Stage.HEAD and (name := name.lower()) in KEPT_FIELDS:
            earlier = self.headers.get(name)
            self.headers[name] = value if earlier is None else b"%b, %b" % (earlier, value)

    def on_headers_complete(self) -> None:
        self._silent_bytes = self._field_bytes = 0
        self.status = self._parser.get_status_code()
        if self.status < 200:
            self._fields = 0
            self._interim += 1
            self.headers.clear()
            if self._interim > INTERIM:
                raise NotHttp("too many interim answers")
            return
        named = b"content-length" in self.headers or b"transfer-encoding" in self.headers
        self._until_close = not named and self.status not in NO_BODY
        self._stage = Stage.BODY

    def on_message_complete(self) -> None:
        if self._stage is Stage.BODY:
            self._stage = Stage.ENDED
            self._keeps = self._parser.should_keep_alive()

    def _begin(self) -> None:
        assert not self._is_paused, "reading is on before the next answer"
        self._stage = Stage.HEAD
        self._keeps = self._until_close = False
        self._fields = self._field_bytes = self._interim = 0
        self._silent_bytes = self._held_bytes = 0
        self._pieces.clear()
        self.headers.clear()

    def _next_piece(self) -> bytes:
        pieces = self._pieces
        if len(pieces) == 1 or self._held_bytes > MOST_HELD_BYTES:
            taken = pieces.pop(0)
        else:
            taken = b"".join(pieces)
            pieces.clear()
        if not pieces:
            self._held_bytes = 0
            if self._is_paused and not self.is_lost:
                self._is_paused = False
                self._transport.resume_reading()
        return taken

    def _fail(self, error: BaseException) -> None:
        """What had come is still there to be read, unless a whole answer had come: then what came
        behind it only ends the connection."""
        self._keeps = False
        self._error = error
        self.abort()
        self._wake()

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _news(self, until_s: float) -> asyncio.Future[None]:
        """To be awaited at once."""
        self._until_s = until_s
        if self._timer is None or until_s < self._timer_at_s:
            self._arm()
        self._waiter = waiter = self._loop.create_future()
        return waiter

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at_s = self._until_s
        self._timer = self._loop.call_at(self._until_s, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._waiter is None or self._waiter.done():
            return
        if self._loop.time() < self._until_s:
            self._arm()
        else:
            self._waiter.set_exception(TimeoutError())
            self._waiter = None
