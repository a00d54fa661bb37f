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
from config.http_head import HEAD_BYTES, HEADERS, add_address, checked
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
    _size_bytes = 0  # of the address and the headers of this head
    _head_bytes = 0  # of reads that did not end the head
    _upgrades = False  # to a websocket, with the head that came last
    _running: Exchange | None = None
    _last: Exchange | None = None  # the same as ``cycle``; it may wait behind ``_running``
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
        self.url = b""
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
        for exchange in (self._running, self._last):
            if exchange is not None:
                exchange.lost()
        self.flow.resume_writing()
        if exc is None:
            self.transport.close()
        self.parser = None  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        if self.transport.lingers:
            self.transport.dropped(len(data))
            return
        if self._deaf:
            return
        self._waits.since_s = None
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
            if self._begun or self._head_bytes:
                self._look_at_head()

    def _look_at_head(self) -> None:
        """Of which a part has come."""
        if not self._in_head or self._deaf:
            return
        if self._head_bytes > HEAD_BYTES:
            self._refuse(head_too_large(HEADERS, HEAD_BYTES))
        elif self._begun or self._unanswered is None:
            self._waits.for_head()

    # What the parser finds

    def on_message_begin(self) -> None:
        self._in_head = self._begun = True
        self.transport.unread = True
        self.url, self.headers = b"", []
        self._size_bytes = 0

    def on_url(self, url: bytes) -> None:
        self._size_bytes += len(url)
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:
            self._stop(unparseable("trailers are not accepted"))
        self._size_bytes += len(name) + len(value)
        if self._size_bytes > HEAD_BYTES or len(self.headers) >= HEADERS:
            self._stop(head_too_large(HEADERS, HEAD_BYTES))
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        parser, version = self.parser, self.parser.get_http_version()
        try:
            self.expect_100_continue = checked(self.headers, version)
        except CallError as error:
            self._stop(error)
        if self._full():
            self._stop(no_place())
        self._in_head = self._begun = False
        self._head_bytes = 0
        if self._waits.head_timer is not None:
            self._waits.head_ended()
        scope: Any = {
            **self._of_all,
            "state": self.app_state.copy(),
            "http_version": version,
            "headers": self.headers,
            "method": parser.get_method().decode("ascii"),
        }
        add_address(scope, self.root_path, self.url)
        self.scope = scope
        upgrades = parser.should_upgrade()
        self._upgrades = upgrades and self._should_upgrade()
        if not self._upgrades:  # to something else is not done: that ends the connection
            self._begin(version != "1.0" and parser.should_keep_alive() and not upgrades)

    def on_body(self, body: bytes) -> None:
        if (exchange := self._unanswered) is not None and not self._upgrades:
            exchange.take(body)

    def on_message_complete(self) -> None:
        if (exchange := self._unanswered) is not None and not self._upgrades:
            exchange.end()
        self._in_head = True
        self.transport.unread = False

    @property
    def _unanswered(self) -> Exchange | None:
        """The last one, unless its answer is complete."""
        last = self._last
        return None if last is None or last.response_complete else last

    # From one request to the next

    def _begin(self, keep_alive: bool) -> None:
        behind = self._unanswered is not None
        exchange = Exchange(self, self.scope, keep_alive=keep_alive)
        self.cycle = self._last = exchange
        if behind:
            self.flow.pause_reading()
            self.pipeline.appendleft((exchange, self.app))
        else:
            self._start_asgi_task(exchange, self.app)

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        self._running = cycle
        task = self.loop.create_task(cycle.run_asgi(app))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        self._running = None
        if self.transport.is_closing():
            return
        if self.flow.read_paused:
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
        if (exchange := self._unanswered) is not None:
            if self._in_head:  # of a request behind it
                exchange.keep_alive = False
                return
            if exchange.response_started or self.pipeline:
                self.transport.abort()
                return
            exchange.lost()
        self.transport.write(rendered(error, self.url))
        self.transport.close()
