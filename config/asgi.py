"""Which part of the product answers a connection?

``/v1/files`` and ``/v1/batches`` belong to the workers' application, every other ``/v1`` path to
the data plane, ``/livez`` ``/readyz`` ``/metrics`` to the probes; none touches Django's handler.
Websockets go to Channels; all else is a page or the control API. Everyone finds the running gateway
in ``scope["fairway"]`` and the live feed in ``scope["live"]``; each is None before the start and in
the role that has none.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable
from typing import cast

from config.asgi_types import Application, Receive, Scope, Send
from config.env import plain_exit

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

from django.core.asgi import get_asgi_application

with plain_exit():
    _django = cast(Application, get_asgi_application())  # loads the apps: before what follows

from config.composition import Parts, Role, sockets, workers
from config.web import Refused, Web, answer

PROBES = frozenset(("/livez", "/readyz", "/healthz", "/health", "/metrics"))
WORKERS = ("/v1/files", "/v1/batches")
_BELOW_WORKERS = tuple(f"{own}/" for own in WORKERS)


class Fronts:
    """The outermost application of a process with ``role``."""

    def __init__(self, role: Role = Role.ALL) -> None:
        self._role = role
        self.parts = Parts(role)
        self._web: Application = Web(_django)
        self._workers = workers(self._web)
        self._sockets = sockets()

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """To be awaited; what serves the request is awaited itself, without a step between."""
        if scope["type"] == "lifespan":
            return self._lifespan(receive, send)
        scope["fairway"] = self.parts.fairway
        scope["live"] = self.parts.live
        application = self._application(scope["type"], scope["path"])
        if application is None:
            text = f"Not served by a process of role {self._role}."
            return answer(scope, send, Refused(404, text))
        return application(scope, receive, send)

    def _application(self, kind: str, path: str) -> Application | None:
        if kind == "websocket":
            return self._sockets
        if path in PROBES:
            return cast(Application, self.parts.probes)
        if path == "/v1" or path.startswith("/v1/"):
            return self._inference(path)
        return None if self._role is Role.GATEWAY else self._web

    def _inference(self, path: str) -> Application | None:
        if path.startswith(WORKERS) and (path in WORKERS or path.startswith(_BELOW_WORKERS)):
            return self._workers
        fairway = self.parts.fairway
        return cast(Application, fairway.data_plane) if fairway else None

    async def probes(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The application of a listener for the probes alone."""
        if scope["path"] in PROBES:
            await cast(Application, self.parts.probes)(scope, receive, send)
        else:
            await answer(scope, send, Refused(404, "Only the probes are served here."))

    @property
    def takes_connections(self) -> bool:
        return not self.parts.full

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        """Starts the parts before the first connection, stops them after the last."""
        await receive()
        await self.parts.start()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.parts.stop()
        await send({"type": "lifespan.shutdown.complete"})


application = Fronts()
