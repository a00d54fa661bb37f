"""How does the process listen, and how does it stop?

The listening socket is ours: TCP_USER_TIMEOUT on it is inherited by every connection and is what
cuts a peer that vanished or never reads. On SIGTERM or SIGINT the gateway drains first, while the
port still answers (readiness says 503, new and queued calls get 503 with Retry-After, streams run
on); once it is idle, or its grace is over, the server closes. A second signal ends it at once.
"""

from __future__ import annotations

import asyncio
import gc
import socket
from types import FrameType

import structlog
import uvicorn
from django.conf import settings

from config.asgi import Fronts
from config.http_protocol import BoundedProtocol

log = structlog.get_logger(__name__)
PAGES_GRACE_S = 5
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


def serve(fronts: Fronts, listener: socket.socket) -> None:
    """Returns when everything has stopped."""
    config = uvicorn.Config(
        fronts,
        http=BoundedProtocol,
        ws="websockets-sansio",
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
    gc.collect()
    gc.freeze()  # what is loaded lives as long as the process: no collection walks it again
    DrainingServer(config, fronts).run(sockets=[listener])


class DrainingServer(uvicorn.Server):
    """Uvicorn, except that a signal drains the gateway before the sockets close."""

    def __init__(self, config: uvicorn.Config, fronts: Fronts) -> None:
        super().__init__(config)
        self._fronts = fronts
        self._draining: asyncio.Task[None] | None = None
        self._signals = 0

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
