"""Which parts make the applications of this process? The only place that knows all of them.

In the role ``all`` calls and pages share the process, and events reach the pages directly. In the
roles ``gateway`` and ``web`` they travel over the channel layer; a process of role ``all`` also
publishes them there when there is a Redis, so that processes of role ``web`` can be added.

Every process looks at its own memory: one without calls as well, which then takes no connection.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from enum import StrEnum

from channels.auth import AuthMiddleware
from channels.layers import get_channel_layer
from channels.routing import URLRouter
from channels.security.websocket import AllowedHostsOriginValidator, WebsocketDenier
from channels.sessions import CookieMiddleware, SessionMiddleware
from django.conf import settings
from django.urls import re_path

from config.asgi_types import Application
from config.nul import without_nul_cookies
from dashboard.live.feed import LiveFeed
from dashboard.live.relay import LivePublisher
from dashboard.routing import websocket_urlpatterns
from dashboard.selectors import tenancy
from gateway.background import Background
from gateway.core.events import Event
from gateway.core.stages import MEMORY, Stage, Stages
from gateway.memory_watch import MemoryWatch
from gateway.probes import Probes
from gateway.process_memory import ProcessMemory, give_back
from gateway.runtime import Fairway
from workers.asgi import build_application
from workers.progress import BatchProgress


class Role(StrEnum):
    """What one process does."""

    ALL = "all"
    GATEWAY = "gateway"  # /v1 and the probes, no pages
    WEB = "web"  # pages and the control API, no calls


class Parts:
    """What runs in the background of a process, from `start` to `stop`. ``fairway`` is None in the
    role ``web``, ``live`` in the role ``gateway``."""

    def __init__(self, role: Role) -> None:
        self._role = role
        self._stack = AsyncExitStack()
        self.fairway: Fairway | None = None
        self.live: LiveFeed | None = None
        self._memory = Stages(MEMORY)  # of a process without calls
        self.probes = Probes(lambda: True, dict, bytes, full=lambda: self.full)

    @property
    def full(self) -> bool:
        """Memory is so short that nothing more may come in."""
        if self.fairway is not None:
            return self.fairway.full
        return self._memory.stage is Stage.NOTHING

    async def start(self) -> None:
        sinks: dict[str, Callable[[Event], None]] = {}
        if self._role is not Role.GATEWAY:
            self.live = await self._feed()
            sinks["live"] = self.live.on_event
        if self._role is Role.WEB:
            self._watch_memory()
            return
        if settings.REDIS_URL or self._role is Role.GATEWAY:
            sinks["live_layer"] = (await self._publisher()).on_event
        progress = await self._progress()
        self.fairway = Fairway(settings.FAIRWAY_GATEWAY, sinks, batches=lambda: progress.current)
        self._stack.push_async_callback(self.fairway.stop)
        self.probes = self.fairway.probes
        await self.fairway.start()

    async def stop(self) -> None:
        await self._stack.aclose()

    def _watch_memory(self) -> None:
        used = ProcessMemory(settings.FAIRWAY_GATEWAY.memory_limit_bytes).used_ratio
        tasks = Background()
        tasks.spawn("memory watch", MemoryWatch(used, self._memory, _logged, give_back).run())
        self._stack.push_async_callback(tasks.cancel)

    async def _feed(self) -> LiveFeed:
        layer = get_channel_layer() if self._role is Role.WEB else None
        feed = LiveFeed(settings.FAIRWAY_DASHBOARD, read_tenancy=tenancy, layer=layer)
        self._stack.push_async_callback(feed.stop)
        await feed.start()
        return feed

    async def _progress(self) -> BatchProgress:
        progress = BatchProgress()
        self._stack.push_async_callback(progress.stop)
        await progress.start()
        return progress

    async def _publisher(self) -> LivePublisher:
        publisher = LivePublisher(get_channel_layer())
        self._stack.push_async_callback(publisher.stop)
        await publisher.start()
        return publisher


def _logged(why: str | None) -> None:
    """A process without calls has no event of it; the watch has logged the stage."""


def sockets() -> Application:
    """Websockets from our own pages only, with the session's user."""
    routes = URLRouter([*websocket_urlpatterns, re_path("", WebsocketDenier.as_asgi())])
    with_session = without_nul_cookies(SessionMiddleware(AuthMiddleware(routes)))
    application: Application = AllowedHostsOriginValidator(CookieMiddleware(with_session))
    return application


def workers(web: Application) -> Application:
    """Files and batches: uploads and downloads streamed, the rest handed to ``web``."""
    application: Application = build_application(web)
    return application
