"""One request and its response: the ASGI side of a connection.

Does for an application what uvicorn's own cycle does, with less to do for each call: the head of a
response leaves with the first piece of its body, the names and values of all headers are checked at
once, and nobody who needs no event pays for one. A head whose body does not follow in the same turn
of the loop goes out alone.

Three extensions of the scope: ``when_gone`` tells once that the client has left, so that nobody
needs a task that listens for it; ``whole_body`` gives a body that is there already, so that nobody
needs a timer to wait for it; ``write_now`` writes a piece of a stream from wherever it is called,
so that no task is woken for it.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from gateway.pipeline.incoming import GONE, WHOLE_BODY, WRITE_NOW

if TYPE_CHECKING:
    from config.http_protocol import BoundedProtocol

HIGH_WATER_BYTES = 65_536
_WRONG_NAME = re.compile(rb'[\x00-\x1f\x7f()<>@,;:\\\[\]={} \t"]')
_WRONG_VALUE = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_DISCONNECT = {"type": "http.disconnect"}
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_BODILESS = (204, 304)
_log = logging.getLogger("uvicorn.error")


class Exchange(RequestResponseCycle):
    """``run_asgi``, the outermost place where an error is caught, is inherited."""

    def __init__(self, protocol: BoundedProtocol, scope: Any, *, keep_alive: bool) -> None:
        scope["extensions"] = {
            GONE: self.when_gone,
            WHOLE_BODY: self.whole_body,
            WRITE_NOW: self.write_now,
        }
        self.scope = scope
        self.logger = _log
        self.transport = cast(asyncio.Transport, protocol.transport)
        self.flow = protocol.flow
        self._server = protocol.server_state
        self.on_response = protocol.on_response_complete
        self.keep_alive = keep_alive
        self.waiting_for_100_continue = protocol.expect_100_continue
        self.disconnected = self.response_started = self.response_complete = False
        self.more_body = True
        self.chunked_encoding: bool | None = None
        self.expected_content_length = 0
        self._parts: list[bytes] = []
        self._waiting_bytes = 0
        self._told_all = False
        self._news: asyncio.Event | None = None
        self._gone: Callable[[], None] | None = None
        self._head = b""

    # What the connection tells

    def take(self, part: bytes) -> None:
        self._parts.append(part)
        self._waiting_bytes += len(part)
        if self._waiting_bytes > HIGH_WATER_BYTES:
            self.flow.pause_reading()
        self._tell()

    def end(self) -> None:
        self.more_body = False
        self._tell()

    def lost(self) -> None:
        if self.response_complete or self.disconnected:
            return
        self.disconnected = True
        self._tell()
        self._forget()
        if self._gone is not None:
            self._gone()

    def when_gone(self, told: Callable[[], None] | None) -> None:
        """None: nobody is to be told any more. Not told from within this call, also where the
        client has left before."""
        self._gone = told
        if told is not None and self.disconnected:
            asyncio.get_running_loop().call_soon(told)

    def _forget(self) -> None:
        """Ends the ring of scope and exchange, so that no collection has to find it."""
        self.scope.pop("extensions", None)

    def _tell(self) -> None:
        if self._news is not None:
            self._news.set()

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
        body: bytes = self._next_body()["body"]
        return body

    def _next_body(self) -> dict[str, Any]:
        body = b"".join(self._parts)
        self._parts.clear()
        self._waiting_bytes = 0
        self._told_all = not self.more_body
        return {"type": "http.request", "body": body, "more_body": self.more_body}

    def write_now(self, body: bytes) -> bool:
        """More of a body in chunks. False: nothing was written, ``send`` must do it and wait."""
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
            self._head = self._head_of(message["status"], message.get("headers", ()))
            self.response_started = True
            self.waiting_for_100_continue = False
            asyncio.get_running_loop().call_soon(self._write_head)
        else:
            raise RuntimeError(f"Unexpected ASGI message {kind!r}.")

    def _head_of(self, status: int, headers: Any) -> bytes:
        """Raises RuntimeError for a header that cannot be sent."""
        _check(headers)
        lines = [STATUS_LINE[status]]
        for name, value in self._server.default_headers:  # the date, of this second
            lines += (name, b": ", value, b"\r\n")
        closes = False
        for given, value in headers:
            name = given.lower()
            if name == b"content-length" and self.chunked_encoding is None:
                self.expected_content_length = int(value)
                self.chunked_encoding = False
            elif name == b"transfer-encoding" and value.lower() == b"chunked":
                self.expected_content_length = 0
                self.chunked_encoding = True
            elif name == b"connection":
                closes |= b"close" in (token.strip() for token in value.lower().split(b","))
            lines += (name, b": ", value, b"\r\n")
        unread = self.more_body  # nobody reads what is left of the request
        self.keep_alive = self.keep_alive and not (closes or unread)
        if not self.keep_alive and not closes:
            lines.append(b"connection: close\r\n")
        bodiless = self.scope["method"] == "HEAD" or status in _BODILESS
        if self.chunked_encoding is None and not bodiless:
            self.chunked_encoding = True
            lines.append(b"transfer-encoding: chunked\r\n")
        lines.append(b"\r\n")
        return b"".join(lines)

    def _write_head(self) -> None:
        if self._head and not self.transport.is_closing():
            self.transport.write(self._head)
        self._head = b""

    def _write_body(self, body: bytes, *, more: bool) -> None:
        piece = self._framed(body, more=more)
        if self._head or piece:
            self.transport.write(self._head + piece)
            self._head = b""
        if more:
            return
        if self.expected_content_length:
            raise RuntimeError("Response content shorter than Content-Length")
        self.response_complete = True
        self._tell()
        self._forget()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()

    def _framed(self, body: bytes, *, more: bool) -> bytes:
        if self.scope["method"] == "HEAD":
            self.expected_content_length = 0
            return b""
        if self.chunked_encoding:
            piece = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            return piece if more else piece + b"0\r\n\r\n"
        self.expected_content_length -= len(body)
        if self.expected_content_length < 0:
            raise RuntimeError("Response content longer than Content-Length")
        return body


def _check(headers: Any) -> None:
    names = b"".join([name for name, _ in headers])
    values = b"".join([value for _, value in headers])
    if _WRONG_NAME.search(names) or _WRONG_VALUE.search(values):
        raise RuntimeError("Invalid HTTP header.")
