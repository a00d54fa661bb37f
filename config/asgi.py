"""Which part of the product answers a connection?

``/v1/files`` and ``/v1/batches`` belong to the workers' application, every other ``/v1`` path to
the data plane, ``/livez`` ``/readyz`` ``/metrics`` to the probes; none touches Django's handler.
Websockets go to Channels; all else is a page or the control API. Everyone finds the running gateway
in ``scope["fairway"]``; it is None before the start and in the role ``web``.
"""

from __future__ import annotations

import os
from enum import StrEnum
from typing import TYPE_CHECKING, cast

import structlog

from config.asgi_types import Application, Receive, Scope, Send
from config.env import plain_exit

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

from django.core.asgi import get_asgi_application

with plain_exit():
    _django = cast(Application, get_asgi_application())  # loads the apps: before what follows

from config import composition
from config.web import Web, answer

if TYPE_CHECKING:
    from gateway.runtime import Fairway

log = structlog.get_logger(__name__)
PROBES = frozenset(("/livez", "/readyz", "/healthz", "/health", "/metrics"))
WORKERS = ("/v1/files", "/v1/batches")


class Role(StrEnum):
    """What one process does."""

    ALL = "all"
    GATEWAY = "gateway"  # /v1 and the probes, no pages
    WEB = "web"  # pages and the control API, no calls


class Fronts:
    """The outermost application of a process with ``role``."""

    def __init__(self, role: Role = Role.ALL) -> None:
        self.fairway: Fairway | None = None
        self._role = role
        self._web: Application = Web(_django)
        self._workers: Application = composition.workers(self._web)
        self._sockets: Application = composition.sockets()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        scope["fairway"] = self.fairway
        application = self._application(scope["type"], scope["path"])
        if application is None:
            await answer(send, 404, f"Not served by a process of role {self._role}.")
        else:
            await application(scope, receive, send)

    def _application(self, kind: str, path: str) -> Application | None:
        if kind == "websocket":
            return self._sockets
        if path in PROBES:
            return self.fairway.probes if self.fairway else None
        if path.startswith("/v1/"):
            return self._inference(path)
        return None if self._role is Role.GATEWAY else self._web

    def _inference(self, path: str) -> Application | None:
        if path.startswith(WORKERS):
            return self._workers
        return self.fairway.data_plane if self.fairway else None

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        """Starts the gateway before the first connection, stops it after the last."""
        await receive()
        if self._role is not Role.WEB:
            self.fairway = composition.fairway()
            await self.fairway.start()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        if self.fairway is not None:
            await self.fairway.stop()
        await send({"type": "lifespan.shutdown.complete"})


application = Fronts()
