"""The socket of a page: who it belongs to is read from its session, what it gets is the newest.

It sends when the browser has taken the previous message, so that a stuck browser holds one message
and no more. What the browser may say is its theme; anything else closes the socket. Every few
seconds the session and the role are read again, off the loop; when they are gone, so is the socket.

Close codes: 4401 not signed in (any more), 4403 no role or another one, 4409 the session is in
another organization than the page that opened the socket, 1008 not understood. A socket that
another site's page opens is refused before it is accepted.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any
from urllib.parse import parse_qs

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings

from dashboard import tabs
from dashboard.access import audience_of_session
from dashboard.figures import THEMES
from dashboard.live.audience import Audience, MembersOf
from dashboard.live.feed import LiveFeed, Subscription
from dashboard.live.messages import Moment
from dashboard.live.origin import is_own_page

SIGNED_OUT = 4401
FORBIDDEN = 4403
SWITCHED = 4409
NOT_UNDERSTOOD = 1008
LONGEST_MESSAGE = 200


class LiveConsumer(AsyncWebsocketConsumer):
    """``scope["live"]`` is the process's feed."""

    async def connect(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []
        self._seen: Moment | None = None
        self._theme = _theme(self.scope.get("query_string", b""))
        self._subscription: Subscription | None = None
        if not is_own_page(
            self.scope, settings.CSRF_TRUSTED_ORIGINS, settings.SESSION_COOKIE_SECURE
        ):
            await self.close()
            return
        audience = await self._allowed()
        await self.accept()  # a close code reaches a browser only through an open socket
        if audience is None:
            signed_in = getattr(self.scope.get("user"), "is_authenticated", False)
            await self.close(FORBIDDEN if signed_in else SIGNED_OUT)
            return
        page = _page_of(self.scope.get("query_string", b""))
        if page is not None and page != audience:
            await self._close_for(audience)
            return
        feed: LiveFeed | None = self.scope.get("live")
        if feed is not None:
            self._spawn("live-socket", self._send_newest(feed, audience))
        self._spawn("live-recheck", self._recheck(audience))

    async def disconnect(self, code: int) -> None:
        for task in getattr(self, "_tasks", []):
            task.cancel()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        theme = _wished_theme(text_data)
        if theme is None:
            await self.close(NOT_UNDERSTOOD)
            return
        self._theme = theme
        if self._subscription is not None and self._seen is not None:
            self._subscription.offer(self._seen)  # once more, whole, in the other colours
            self._seen = None

    def _spawn(self, name: str, work: Any) -> None:
        self._tasks.append(asyncio.create_task(work, name=name))

    async def _allowed(self) -> Audience | None:
        session = self.scope.get("session")
        key = getattr(session, "session_key", None)
        read = database_sync_to_async(audience_of_session, thread_sensitive=False)
        audience: Audience | None = await read(key)
        return audience

    async def _send_newest(self, feed: LiveFeed, audience: Audience) -> None:
        with feed.subscribe(audience) as subscription:
            self._subscription = subscription
            while True:
                moment = await subscription.next()
                text = moment.after(self._seen, self._theme, time.time())
                self._seen = moment
                await self.send(text_data=text)

    async def _recheck(self, audience: Audience) -> None:
        while True:
            await asyncio.sleep(settings.FAIRWAY_DASHBOARD.access_recheck_s)
            now = await self._allowed()
            if now != audience:
                await self._close_for(now)
                return

    async def _close_for(self, now: Audience | None) -> None:
        """The page shows another audience than ``now``."""
        if now is None:
            await self.close(SIGNED_OUT, "signed out")
        elif isinstance(now, MembersOf):
            await self.close(SWITCHED, "another organization")
        else:
            await self.close(FORBIDDEN, "another role")


def _page_of(query: bytes) -> Audience | None:
    """Whom the page that opens the socket was rendered for; grants nothing."""
    named = parse_qs(query.decode("latin-1")).get(tabs.FIELD)
    return MembersOf(named[0]) if named else None


def _theme(query: bytes) -> str:
    wished = parse_qs(query.decode("latin-1")).get("theme", ["light"])[0]
    return wished if wished in THEMES else "light"


def _wished_theme(text: str | None) -> str | None:
    if text is None or len(text) > LONGEST_MESSAGE:
        return None
    try:
        said = json.loads(text)
    except ValueError:
        return None
    theme = said.get("theme") if isinstance(said, dict) else None
    return theme if isinstance(theme, str) and theme in THEMES else None
