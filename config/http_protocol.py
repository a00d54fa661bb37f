"""Which requests does the server take? uvicorn's strict parser, with the bounds that it lacks.

A head is bounded however it is cut into reads (431), and has HEAD_TIMEOUT_S seconds from its
connection, or from its first byte on a connection that is used again, empty lines before it
included (408; closed in silence where nothing came). What else it must be says ``http_head``. A
header after the body, a chunked trailer, would pass for one of the head and is refused (400). Every
refusal is an answer in the API's shape and ends the connection; it never cuts into the answer of an
earlier request, which is completed instead.

An answer that begins before its request has come whole also ends its connection: what is left of
that request is not read.

Of uvicorn's own protocol there remain the parser, the upgrade to a websocket and what the server
asks of a connection. Requests and answers are ``http_exchange``'s.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from config.http_exchange import Exchange
from config.http_head import HEAD_BYTES, HEADERS, Head
from config.http_refusals import head_too_large, head_too_late, no_place, rendered, unparseable
from config.http_waits import Waits
from config.lingering import Lingering
from gateway.core.errors import CallError

HEAD_TIMEOUT_S = 5.0
_ASGI = {"version": "3.0", "spec_version": "2.3"}


class _Unreadable(Exception):
    """Stops the parser: the request has been refused."""


class BoundedProtocol(HttpToolsProtocol):
    transport: Lingering  # type: ignore[assignment]
    _in_head = True
    _begun = False  # the head, by its first byte
    _head_bytes = 0  # of reads that did not end the head
    _running: Exchange | None = None  # ``cycle`` is the last one, which may wait behind it
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
        self._head = Head()
        self._of_all: dict[str, Any] = {}  # what the scopes of all requests have in common

    # The connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(cast(asyncio.Transport, Lingering(transport, self.loop)))
        self._of_all = {
            "type": "http",
            "asgi": _ASGI,
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme,
            "root_path": self.root_path,
        }
        self._waits = Waits(
            self.loop,
            head_timeout_s=self._head_timeout_s,
            idle_timeout_s=self.timeout_keep_alive,
            late=self._give_up,
            idle=self.transport.close,
        )
        self._waits.for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._waits.ended()
        self.transport.ended()
        self.connections.discard(self)
        for exchange in (self._running, cast(Exchange | None, self.cycle)):
            if exchange is not None:
                exchange.lost()
        self.flow.resume_writing()
        if exc is None:
            self.transport.close()
        self.parser = None  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            self.transport.dropped(len(data))
            return
        if self._deaf:
            return
        self._waits.at_work()
        if self._in_head:
            self._head_bytes += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            if self._should_upgrade():
                self._waits.ended()
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
        elif self._begun or self._answered:
            self._waits.for_head()

    # What the parser finds

    def on_message_begin(self) -> None:
        self._in_head = self._begun = True
        self.transport.unread = True
        self._head = Head()
        self.headers = self._head.headers

    def on_url(self, url: bytes) -> None:
        self._head.add_address(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:
            self._stop(unparseable("trailers are not accepted"))
        try:
            self._head.add(name, value)
        except CallError as error:
            self._stop(error)

    def on_headers_complete(self) -> None:
        version = self.parser.get_http_version()
        self._check_head(version)
        self._in_head = self._begun = False
        self._head_bytes = 0
        self._waits.head_ended()
        self.url = self._head.url
        self.expect_100_continue = self._head.waits_for_leave
        of_all = {**self._of_all, "state": self.app_state.copy()}
        self.scope = cast(Any, self._head.scope(of_all, self.parser.get_method(), version))
        if not self._upgrades:
            self._begin(version)

    def _check_head(self, version: str) -> None:
        try:
            self._head.check(version)
        except CallError as error:
            self._stop(error)
        if self._full():
            self._stop(no_place())

    def on_body(self, body: bytes) -> None:
        if not self._over:
            cast(Exchange, self.cycle).take(body)

    def on_message_complete(self) -> None:
        if not self._over:
            cast(Exchange, self.cycle).end()
        self._in_head = True
        self.transport.unread = False

    @property
    def _upgrades(self) -> bool:
        return self.parser.should_upgrade() and self._should_upgrade()

    @property
    def _answered(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    @property
    def _over(self) -> bool:
        """Nobody waits for the body of this request."""
        return self._answered or self._upgrades

    # From one request to the next

    def _begin(self, version: str) -> None:
        """An upgrade to something else than a websocket is not done: it ends the connection."""
        goes_on = self.parser.should_keep_alive() and not self.parser.should_upgrade()
        behind = not self._answered
        exchange = Exchange(self, self.scope, keep_alive=version != "1.0" and goes_on)
        self.cycle = exchange
        if behind:
            self.flow.pause_reading()
            self.pipeline.appendleft((exchange, self.app))
        else:
            self._start_asgi_task(exchange, self.app)

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        self._running = None
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        else:
            self._waits.at_rest()

    # Refusals

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
        self._waits.head_ended()
        self.transport.unread = True
        if not self._answered:
            if self._in_head:  # of a request behind it
                self.cycle.keep_alive = False
                return
            if self.cycle.response_started or self.pipeline:
                self.transport.abort()
                return
            cast(Exchange, self.cycle).lost()
        self.transport.write(rendered(error, self._head.url))
        self.transport.close()
