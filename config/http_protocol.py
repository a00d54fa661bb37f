"""How large and how slow may the head of a request be? uvicorn itself sets no bound.

A head has at most HEADERS headers and HEAD_BYTES bytes (431), however it is cut into reads, and
HEAD_TIMEOUT_S seconds from its connection, or from its first byte on a connection that is used
again, empty lines before it included (closed). A header after the body, a chunked trailer, would
pass for a header of the head: its connection is dropped.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADERS = 100
HEAD_BYTES = 32 * 1024
HEAD_TIMEOUT_S = 5.0
_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"connection: close\r\ncontent-length: 0\r\n\r\n"
)


class BoundedProtocol(HttpToolsProtocol):
    _in_head = True
    _headers = 0
    _head_bytes = 0  # of reads that did not end the head
    _parsed_bytes = 0  # of the address and the headers
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._in_head:
            self._head_bytes += len(data)
        super().data_received(data)
        if self.transport.get_protocol() is not self:  # it is a websocket from here on
            self._stop_waiting()
            return
        if not self._in_head:
            return
        if self._head_bytes > HEAD_BYTES:
            self._refuse()
        elif self._timer is None and (self.cycle is None or self.cycle.response_complete):
            self._wait_for_head()

    def on_message_begin(self) -> None:
        self._in_head = True
        self._headers = 0
        self._parsed_bytes = 0
        if self._timer is None:
            self._wait_for_head()
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:
            self.transport.abort()
            return
        self._headers += 1
        self._parsed_bytes += len(name) + len(value)
        if self._headers > HEADERS or self._parsed_bytes > HEAD_BYTES:
            self._refuse()
        else:
            super().on_header(name, value)

    def on_url(self, url: bytes) -> None:
        self._parsed_bytes += len(url)
        super().on_url(url)

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._head_bytes = 0
        self._stop_waiting()
        if not self.transport.is_closing():
            super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_head = True

    def _wait_for_head(self) -> None:
        self._timer = self.loop.call_later(HEAD_TIMEOUT_S, self._give_up)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self.transport.close()

    def _refuse(self) -> None:
        if not self.transport.is_closing():
            self.transport.write(_TOO_LARGE)
            self.transport.close()
