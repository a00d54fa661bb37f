"""One request and its response: the ASGI side of a connection.

Does for an application what uvicorn's own cycle does, with less to do for each call: the head of a
response leaves with the first piece of its body, the names and values of all headers are checked at
once, and nobody who needs no event pays for one. A head whose body does not follow in the same turn
of the loop goes out alone.

An extension of the scope is the exchange itself, as a ``Caller``: it tells once that the client has
left, so that nobody needs a task that listens for it; it gives a body that is there already, so
that nobody needs a timer to wait for it; and what it is told to say is written at once.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from gateway.pipeline.caller import CALLER, Head, Waits

if TYPE_CHECKING:
    from config.http_protocol import BoundedProtocol

HIGH_WATER_BYTES = 65_536
_WRONG_NAME = re.compile(rb'[\x00-\x1f\x7f()<>@,;:\\\[\]={} \t"]')
_WRONG_VALUE = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_DISCONNECT = {"type": "http.disconnect"}
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_BODILESS = (204, 304)
_FRAMING = frozenset({b"connection", b"content-length", b"transfer-encoding"})
_NAME, _VALUE = itemgetter(0), itemgetter(1)
_log = logging.getLogger("uvicorn.error")


class Exchange(RequestResponseCycle):
    """Implements Caller. ``run_asgi``, the outermost place where an error is caught, is inherited.
    At its end it leaves the scope, so that no collection has to find the ring of the two."""

    logger = _log
    disconnected = response_started = response_complete = False
    more_body = True
    chunked_encoding: bool | None = None
    expected_content_length = 0
    _waiting_bytes = 0
    _told_all = False
    _silent = False  # an answer without a body
    _news: asyncio.Event | None = None
    _gone: Callable[[], None] | None = None
    _head = b""

    def __init__(self, protocol: BoundedProtocol, scope: Any, *, keep_alive: bool) -> None:
        scope["extensions"] = {CALLER: self}
        self.scope = scope
        transport: Any = protocol.transport
        self.transport = transport
        self.flow = protocol.flow
        self._server = protocol.server_state
        self.on_response = protocol.on_response_complete
        self.keep_alive = keep_alive
        self.waiting_for_100_continue = protocol.expect_100_continue
        self._parts: list[bytes] = []

    # What the connection tells

    def take(self, part: bytes) -> None:
        self._parts.append(part)
        self._waiting_bytes += len(part)
        if self._waiting_bytes > HIGH_WATER_BYTES:
            self.flow.pause_reading()
        if self._news is not None:
            self._news.set()

    def end(self) -> None:
        self.more_body = False
        if self._news is not None:
            self._news.set()

    def lost(self) -> None:
        if self.response_complete or self.disconnected:
            return
        self.disconnected = True
        if self._news is not None:
            self._news.set()
        self.scope.pop("extensions", None)
        if self._gone is not None:
            self._gone()

    def when_gone(self, told: Callable[[], None] | None) -> None:
        """None: nobody is to be told any more. Not told from within this call, also where the
        client has left before."""
        self._gone = told
        if told is not None and self.disconnected:
            asyncio.get_running_loop().call_soon(told)

    # What the application calls

    async def receive(self) -> Any:
        if self.waiting_for_100_continue and not self.transport.is_closing():
            self.transport.write(_CONTINUE)
            self.waiting_for_100_continue = False
        while not (self.disconnected or self.response_complete):
            if self._parts or not (self.more_body or self._told_all):
                return self._next_body()
            self.flow.resume_reading()
            self._news = self._news or asyncio.Event()
            self._news.clear()
            await self._news.wait()
        return _DISCONNECT

    def whole_body(self) -> bytes | None:
        """None while some of it is still to come, or when it was received before."""
        if self.more_body or self._told_all or self.disconnected:
            return None
        self._told_all = True
        parts, self._parts = self._parts, []
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _next_body(self) -> dict[str, Any]:
        body = b"".join(self._parts)
        self._parts.clear()
        self._waiting_bytes = 0
        self._told_all = not self.more_body
        return {"type": "http.request", "body": body, "more_body": self.more_body}

    def say(self, body: bytes, head: Head | None = None, *, more: bool) -> Waits:
        if self.flow.write_paused and not self.disconnected:
            return self._say_when_drained(body, head, more=more)
        if not self.disconnected:
            if head is not None:
                self._start(head)
            self._write_body(body, more=more)
        return None

    async def _say_when_drained(self, body: bytes, head: Head | None, *, more: bool) -> None:
        while self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        self.say(body, head, more=more)

    def say_now(self, body: bytes) -> bool:
        waits = self.flow.write_paused or self._head or self.disconnected
        if waits or self.response_complete or not self.chunked_encoding:
            return False
        self.transport.write(b"%x\r\n%b\r\n" % (len(body), body))
        return True

    async def send(self, message: Any) -> None:
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        kind = message["type"]
        if kind == "http.response.body" and self.response_started and not self.response_complete:
            self._write_body(message.get("body", b""), more=message.get("more_body", False))
        elif kind == "http.response.start" and not self.response_started:
            self._start((message["status"], list(message.get("headers", ()))))
            asyncio.get_running_loop().call_soon(self._write_head)
        else:
            raise RuntimeError(f"Unexpected ASGI message {kind!r}.")

    def _start(self, head: Head) -> None:
        """Raises RuntimeError for a header that cannot be sent."""
        status, headers = head
        _check(headers)
        lines = [STATUS_LINE[status]]
        for name, value in self._server.default_headers:  # the date, of this second
            lines += (name, b": ", value, b"\r\n")
        closes = False
        for given, value in headers:
            name = given.lower()
            if name in _FRAMING:
                closes = self._frame(name, value) or closes
            lines += (name, b": ", value, b"\r\n")
        unread = self.more_body  # nobody reads what is left of the request
        self.keep_alive = self.keep_alive and not (closes or unread)
        if not self.keep_alive and not closes:
            lines.append(b"connection: close\r\n")
        self._silent = self.scope["method"] == "HEAD"
        if self.chunked_encoding is None and not (self._silent or status in _BODILESS):
            self.chunked_encoding = True
            lines.append(b"transfer-encoding: chunked\r\n")
        lines.append(b"\r\n")
        self._head = b"".join(lines)
        self.response_started = True
        self.waiting_for_100_continue = False

    def _frame(self, name: bytes, value: bytes) -> bool:
        """Notes how the body is framed. Whether the connection is to be closed."""
        if name == b"connection":
            return b"close" in [token.strip() for token in value.lower().split(b",")]
        if name == b"transfer-encoding" and value.lower() == b"chunked":
            self.expected_content_length = 0
            self.chunked_encoding = True
        elif name == b"content-length" and self.chunked_encoding is None:
            self.expected_content_length = int(value)
            self.chunked_encoding = False
        return False

    def _write_head(self) -> None:
        if self._head and not self.transport.is_closing():
            self.transport.write(self._head)
        self._head = b""

    def _write_body(self, body: bytes, *, more: bool) -> None:
        if self.chunked_encoding and not self._silent:
            piece = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            if not more:
                piece += b"0\r\n\r\n"
        else:
            piece = self._of_known_length(body)
        if self._head:
            piece, self._head = self._head + piece, b""
        if piece:
            self.transport.write(piece)
        if not more:
            self._end_answer()

    def _of_known_length(self, body: bytes) -> bytes:
        if self._silent:
            self.expected_content_length = 0
            return b""
        self.expected_content_length -= len(body)
        if self.expected_content_length < 0:
            raise RuntimeError("Response content longer than Content-Length")
        return body

    def _end_answer(self) -> None:
        if self.expected_content_length:
            raise RuntimeError("Response content shorter than Content-Length")
        self.response_complete = True
        if self._news is not None:
            self._news.set()
        self.scope.pop("extensions", None)
        if not self.keep_alive:
            self.transport.close()
        self.on_response()


def _check(headers: Sequence[tuple[bytes, bytes]]) -> None:
    names, values = b"".join(map(_NAME, headers)), b"".join(map(_VALUE, headers))
    if _WRONG_NAME.search(names) or _WRONG_VALUE.search(values):
        raise RuntimeError("Invalid HTTP header.")
