"""The pages and their socket behind a real server in a thread, fed by hand instead of a gateway."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from django.conf import settings
from django.core.asgi import get_asgi_application

from config import composition
from config.web import Web
from dashboard.live.feed import LiveFeed
from dashboard.selectors import tenancy
from gateway.core.events import Event


class PagesServer:
    """``send`` gives the feed an event as the gateway's bus would."""

    def __init__(self, listener: socket.socket, **feed_options: Any) -> None:
        self._listener = listener
        self._feed_options = feed_options
        self.port: int = listener.getsockname()[1]
        self.feed: LiveFeed | None = None
        self.loop: asyncio.AbstractEventLoop | None = None
        self.ready = threading.Event()
        django: Any = get_asgi_application()
        self._web: Any = Web(django)
        self._sockets: Any = composition.sockets()
        config = uvicorn.Config(
            self._application, interface="asgi3", lifespan="on", log_config=None, access_log=False
        )
        self._server = uvicorn.Server(config)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def ws_url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/ws/live/"

    def send(self, *events: Event) -> None:
        assert self.loop is not None
        for event in events:
            self.loop.call_soon_threadsafe(self._take, event)

    def _take(self, event: Event) -> None:
        assert self.feed is not None
        self.feed.on_event(event)

    def run(self) -> None:
        self._server.run(sockets=[self._listener])

    def stop(self) -> None:
        self._server.should_exit = True

    async def _application(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        scope["live"] = self.feed
        scope["fairway"] = None
        application = self._sockets if scope["type"] == "websocket" else self._web
        await application(scope, receive, send)

    async def _lifespan(self, receive: Any, send: Any) -> None:
        await receive()
        self.loop = asyncio.get_running_loop()
        self.feed = LiveFeed(settings.FAIRWAY_DASHBOARD, read_tenancy=tenancy, **self._feed_options)
        await self.feed.start()
        await send({"type": "lifespan.startup.complete"})
        self.ready.set()
        await receive()
        await self.feed.stop()
        await send({"type": "lifespan.shutdown.complete"})


@contextmanager
def pages_server(**feed_options: Any) -> Iterator[PagesServer]:
    listener = socket.create_server(("127.0.0.1", 0))
    server = PagesServer(listener, **feed_options)
    thread = threading.Thread(target=server.run, name="pages-server", daemon=True)
    thread.start()
    assert server.ready.wait(20), "the server did not start"
    try:
        yield server
    finally:
        server.stop()
        thread.join(20)
        listener.close()
