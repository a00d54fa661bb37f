"""Which requests does the server take? uvicorn's strict parser, with the bounds that it lacks.

A head has at most HEADERS headers and HEAD_BYTES bytes (431), however it is cut into reads, and
HEAD_TIMEOUT_S seconds from its connection, or from its first byte on a connection that is used
again, empty lines before it included (408; closed in silence where nothing came). It names one host
and no transfer coding but chunked. What is no HTTP/1.1 or 1.0 is refused (400), and so is a header
after the body, a chunked trailer, which would pass for one of the head. Every refusal is an answer
in the API's shape and ends the connection; it never cuts into the answer of an earlier request,
which is completed instead.

An answer that begins before its request has come whole also ends its connection: what is left of
that request is not read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from config.http_refusals import head_too_large, head_too_late, no_place, rendered, unparseable
from config.lingering import Lingering
from gateway.core.errors import CallError

HEADERS = 100
HEAD_BYTES = 32 * 1024
HEAD_TIMEOUT_S = 5.0
_CLOSE = (b"connection", b"close")


class _Unreadable(Exception):
    """Stops the parser: the request has been refused."""


class BoundedProtocol(HttpToolsProtocol):
    transport: Lingering  # type: ignore[assignment]
    _in_head = True
    _headers = 0
    _hosts = 0
    _codings: tuple[bytes, ...] = ()  # of the body on the way
    _head_bytes = 0  # of reads that did not end the head
    _parsed_bytes = 0  # of the address and the headers
    _timer: asyncio.TimerHandle | None = None
    _deaf = False  # nothing more is read; the answers under way are completed

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        head_timeout_s: float = HEAD_TIMEOUT_S,
        full: Callable[[], bool] = lambda: False,
    ) -> None:
        """``full``: there is no place for the request of one more connection."""
        super().__init__(config, server_state, app_state, _loop)
        self._head_timeout_s = head_timeout_s
        self._full = full

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(cast(asyncio.Transport, Lingering(transport, self.loop)))
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self.transport.ended()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            self.transport.dropped(len(data))
            return
        if self._deaf:
            return
        if self._in_head:
            self._head_bytes += len(data)
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            if self._should_upgrade():
                self._stop_waiting()
                self.handle_websocket_upgrade()
        except httptools.HttpParserError:  # also what `_stop` raises
            self._refuse(unparseable("it cannot be parsed"))
        else:
            self._look_at_head()

    def _look_at_head(self) -> None:
        """Of which a part has come."""
        if not self._in_head or self._deaf:
            return
        if self._head_bytes > HEAD_BYTES:
            self._refuse(head_too_large(HEADERS, HEAD_BYTES))
        elif self._timer is None and self._answered:
            self._wait_for_head()

    def on_message_begin(self) -> None:
        self._in_head = True
        self._headers = self._hosts = self._parsed_bytes = 0
        self._codings = ()
        self.transport.unread = True
        if self._timer is None:
            self._wait_for_head()
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._parsed_bytes += len(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:
            self._stop(unparseable("trailers are not accepted"))
        self._headers += 1
        match name.lower():
            case b"host":
                self._hosts += 1
            case b"transfer-encoding":
                self._codings += (value.lower(),)
        self._parsed_bytes += len(name) + len(value)
        if self._headers > HEADERS or self._parsed_bytes > HEAD_BYTES:
            self._stop(head_too_large(HEADERS, HEAD_BYTES))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._check_head(self.parser.get_http_version())
        self._in_head = False
        self._head_bytes = 0
        self._stop_waiting()
        super().on_headers_complete()
        if self.parser.should_upgrade() and self._should_upgrade():
            return
        self.cycle.default_headers = [*self.cycle.default_headers, _CLOSE]
        if self.parser.should_upgrade():  # to something else, which is not done
            self.cycle.keep_alive = False

    def _check_head(self, version: str) -> None:
        if version not in ("1.0", "1.1"):
            self._stop(unparseable("its version must be 1.1 or 1.0"))
        if self._hosts > 1 or (self._hosts == 0 and version == "1.1"):
            self._stop(unparseable("it must name one host"))
        if self._codings and (version == "1.0" or self._codings != (b"chunked",)):
            self._stop(unparseable("its body can be chunked and nothing else"))
        if self._full():
            self._stop(no_place())

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_head = True
        self.transport.unread = False
        if self.cycle is not None:
            self.cycle.default_headers = self.server_state.default_headers

    @property
    def _answered(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _wait_for_head(self) -> None:
        self._timer = self.loop.call_later(self._head_timeout_s, self._give_up)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        if self.transport.unread:
            self._refuse(head_too_late(self._head_timeout_s))
        else:
            self.transport.close()

    def _stop(self, error: CallError) -> None:
        """From within the parser."""
        self._refuse(error)
        raise _Unreadable

    def _refuse(self, error: CallError) -> None:
        if self.transport.is_closing() or self._deaf:
            return
        self._deaf = True
        self._stop_waiting()
        self.transport.unread = True
        if not self._answered:
            if self._in_head:  # of a request behind it
                self.cycle.keep_alive = False
                return
            if self.cycle.response_started or self.pipeline:
                self.transport.abort()
                return
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.write(rendered(error, getattr(self, "url", b"")))
        self.transport.close()
