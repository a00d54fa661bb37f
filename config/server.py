"""How does the process listen, and how does it stop?

The listening sockets are ours: TCP_USER_TIMEOUT on one is inherited by every connection and is what
cuts a peer that vanished or never reads. A `Door` before each takes connections while there is a
place: as many as the limit on open files allows, EXTRA more that are told so (503), and
HEALTH_PLACES of their own for the probes, where they have a listener.

On SIGTERM or SIGINT the gateway drains first, while the port still answers (readiness says 503, new
and queued calls get 503 with Retry-After, streams run on); once it is idle, or its grace is over,
the server closes. A second signal ends it at once.
"""

from __future__ import annotations

import asyncio
import gc
import socket
import sys
from types import FrameType
from typing import cast

import structlog
import uvicorn
from django.conf import settings
from uvicorn.config import STARTUP_FAILURE
from uvicorn.server import ServerState

from config import file_limit
from config.asgi import Fronts
from config.asgi_types import Application
from config.door import Door
from config.http_protocol import BoundedProtocol
from gateway.metrics import ConnectionFacts

log = structlog.get_logger(__name__)
PAGES_GRACE_S = 5
EXTRA = 16
HEALTH_PLACES = 16
COLLECT_AFTER = (5_000, 20, 20)  # objects, collections: nearly all that a call makes dies by itself
WEBSOCKET_MESSAGE_BYTES = 64 * 1024


def listen(host: str, port: int) -> socket.socket:
    """Raises OSError when the address is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        timeout_ms = settings.ENV.shared.tcp_user_timeout_s * 1000
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, timeout_ms)
    try:
        listener.bind((host, port))
        listener.listen(2048)
    except OSError:
        listener.close()
        raise
    return listener


def serve(fronts: Fronts, listener: socket.socket, health: socket.socket | None = None) -> None:
    """``health``: a listener for the probes alone. Returns when everything has stopped."""
    gc.set_threshold(*COLLECT_AFTER)
    DrainingServer(fronts, file_limit.connections_for(file_limit.raised())).run(
        sockets=[listener, *([health] if health else [])]
    )


def _config(application: Application, *, websockets: bool = True) -> uvicorn.Config:
    config = uvicorn.Config(
        application,
        interface="asgi3",
        http=BoundedProtocol,
        ws="websockets-sansio" if websockets else "none",
        ws_max_size=WEBSOCKET_MESSAGE_BYTES,
        ws_per_message_deflate=False,
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=PAGES_GRACE_S,
    )
    config.load()
    return config


class DrainingServer(uvicorn.Server):
    """Uvicorn, except that connections come through doors, and that a signal drains the gateway
    before the sockets close. ``most``: connections at once."""

    def __init__(self, fronts: Fronts, most: int) -> None:
        super().__init__(_config(fronts))
        self._fronts = fronts
        self._most = most
        self._draining: asyncio.Task[None] | None = None
        self._signals = 0

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await self.lifespan.startup()
        if self.lifespan.should_exit:
            sys.exit(STARTUP_FAILURE)
        gc.collect()
        gc.freeze()  # what is loaded lives as long as the process: no collection walks it again
        listener, *health = sockets or []
        main = self._door(listener)
        doors = [main, *map(self._health_door, health)]
        self.servers = cast(list[asyncio.base_events.Server], doors)
        if self._fronts.parts.fairway is not None:
            self._fronts.parts.fairway.metrics.watch_connections(
                lambda: ConnectionFacts(self._held(), self._most, main.pauses)
            )
        self.started = True

    def _held(self) -> int:
        return len(self.server_state.connections)

    def _door(self, listener: socket.socket) -> Door:
        def protocol() -> BoundedProtocol:
            state, shared = self.server_state, self.lifespan.state
            return BoundedProtocol(self.config, state, shared, full=full)

        connections, most = self.server_state.connections, self._most

        def full() -> bool:
            return len(connections) > most

        return Door(
            listener,
            protocol,
            most=self._most + EXTRA,
            held=self._held,
            open_to_all=lambda: self._fronts.takes_connections,
        )

    def _health_door(self, listener: socket.socket) -> Door:
        config, state = _config(self._fronts.probes, websockets=False), ServerState()
        return Door(
            listener,
            lambda: BoundedProtocol(config, state, {}),
            most=HEALTH_PLACES,
            held=lambda: len(state.connections),
        )

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._signals += 1
        if self._signals > 1:
            self.force_exit = self.should_exit = True

    async def on_tick(self, counter: int) -> bool:
        if self._signals and self._draining is None:
            self._draining = asyncio.create_task(self._drain(), name="drain")
        return await super().on_tick(counter)

    async def _drain(self) -> None:
        log.info("draining")
        try:
            if self._fronts.parts.fairway is not None:
                await self._fronts.parts.fairway.drain()
        finally:
            self.should_exit = True
