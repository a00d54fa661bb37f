"""Which parts make the applications of this process? The only place that knows all of them."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from channels.auth import AuthMiddlewareStack
from channels.routing import URLRouter
from channels.security.websocket import AllowedHostsOriginValidator
from django.conf import settings

from config.asgi_types import Application

if TYPE_CHECKING:
    from gateway.runtime import Fairway


def fairway() -> Fairway:
    """The gateway, not yet started, with the pages' live feed among its sinks."""
    from gateway.runtime import Fairway

    return Fairway(settings.FAIRWAY_GATEWAY)


def sockets() -> Application:
    """Websockets from our own pages only, with the session's user."""
    routes: list[Any] = []
    if find_spec("dashboard.routing"):
        from dashboard.routing import websocket_urlpatterns

        routes = websocket_urlpatterns
    application: Application = AllowedHostsOriginValidator(AuthMiddlewareStack(URLRouter(routes)))
    return application


def workers(web: Application) -> Application:
    """Files and batches: uploads and downloads streamed, the rest handed to ``web``."""
    if not find_spec("workers.asgi"):
        return web
    from workers.asgi import build_application

    return build_application(web)
