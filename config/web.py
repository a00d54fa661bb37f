"""How many pages work at once, and how large may their requests be?

Stands in front of Django. The body is read here, counted byte by byte, before Django sees the
request: above the limit 413, not complete in time 408. Then at most two views work at a time, so
that pages cannot starve the streams that share the process. The place is given back when the
response starts: a slow reader of a page holds nobody up. Without a place after PATIENCE_S, or a
response after VIEW_TIMEOUT_S, the answer is 503; while the database is silent a response has
PATIENCE_S only.

A view that is given up is told that its client has left, not cancelled: Django then waits for the
view's thread and closes the thread's database connection, where a cancellation would leave the
connection taken for ever.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any

import structlog

from config.asgi_types import Application, Receive, Scope, Send
from config.middleware import is_api
from tenants.control.problems import problem_of_status

log = structlog.get_logger(__name__)
BODY_LIMIT_BYTES = 2_621_440
BODY_TIMEOUT_S = 10.0
VIEWS_AT_ONCE = 2
PATIENCE_S = 3.0
VIEW_TIMEOUT_S = 10.0  # twice what one statement may take
DATABASE_SILENCE_S = 2.0
RETRY_AFTER_S = 2


class BodyTooLarge(Exception):
    """More bytes arrived, or were announced, than a page may get."""


class ClientGone(Exception):
    """The connection ended before the body did."""


class Web:
    """``django`` behind the body limit and the semaphore."""

    def __init__(self, django: Application) -> None:
        self._django = django
        self._places = asyncio.Semaphore(VIEWS_AT_ONCE)
        self._left: set[asyncio.Future[None]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with asyncio.timeout(BODY_TIMEOUT_S):
                body = await read_body(scope, receive, BODY_LIMIT_BYTES)
        except BodyTooLarge:
            await answer(scope, send, Refused(413, "The request body is larger than 2.5 MiB."))
        except TimeoutError:
            await answer(scope, send, Refused(408, "The request body did not arrive in time."))
        except ClientGone:
            return
        else:
            await self._serve(scope, body, receive, send)

    async def _serve(self, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        began_s = time.monotonic()
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._places.acquire()
        except TimeoutError:
            await answer(scope, send, Refused(503, "Pages are busy.", RETRY_AFTER_S))
            return
        page = _Page(self._places, send)
        replay = _replay(body, receive, page.given_up)
        view = asyncio.ensure_future(self._django(scope, replay, page.send))
        try:
            await page.begun_or_ended(view, PATIENCE_S - (time.monotonic() - began_s))
            if not _database_is_silent(scope):
                await page.begun_or_ended(view, VIEW_TIMEOUT_S)
            if not page.begun and not view.done():
                page.give_up()
                await answer(scope, send, Refused(503, "The page took too long.", RETRY_AFTER_S))
            else:
                await view
        finally:
            page.give_back()
            if not view.done():  # its thread may hang on: nobody waits for it
                self._left.add(view)
                view.add_done_callback(self._forget)
                page.give_up()

    def _forget(self, view: asyncio.Future[None]) -> None:
        self._left.discard(view)
        if not view.cancelled() and (error := view.exception()) is not None:
            log.error("left_view_failed", error=type(error).__name__)


class _Page:
    """One view at work. Its place is free once its response has begun."""

    def __init__(self, places: asyncio.Semaphore, send: Send) -> None:
        self._places = places
        self._send = send
        self._held = True
        self._beginning = asyncio.Event()
        self.given_up = asyncio.Event()
        self.closed = False  # what still comes is dropped

    @property
    def begun(self) -> bool:
        return self._beginning.is_set()

    async def begun_or_ended(self, view: asyncio.Future[None], within_s: float) -> None:
        """Returns after ``within_s`` in any case, at once where that is negative."""
        beginning = asyncio.ensure_future(self._beginning.wait())
        try:
            either: set[asyncio.Future[Any]] = {view, beginning}
            await asyncio.wait(
                either, timeout=max(0.0, within_s), return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            beginning.cancel()

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if self.closed:
            return
        self._beginning.set()
        self.give_back()
        await self._send(message)

    def give_up(self) -> None:
        self.closed = True
        self.given_up.set()

    def give_back(self) -> None:
        if self._held:
            self._held = False
            self._places.release()


def _database_is_silent(scope: Scope) -> bool:
    """As the gateway of this process sees it; where there is none nobody knows."""
    fairway = scope.get("fairway")
    return fairway is not None and fairway.snapshots.silence_s > DATABASE_SILENCE_S


async def read_body(scope: Scope, receive: Receive, limit_bytes: int) -> bytes:
    """Raises BodyTooLarge as soon as the limit is passed, ClientGone when the peer left."""
    if announced_bytes(scope) > limit_bytes:
        raise BodyTooLarge
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientGone
        body += message.get("body", b"")
        if len(body) > limit_bytes:
            raise BodyTooLarge
        if not message.get("more_body", False):
            return bytes(body)


def announced_bytes(scope: Scope) -> int:
    """Content-Length, or 0 where there is none."""
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value)
    return 0


@dataclass(frozen=True, slots=True)
class Refused:
    status: int
    text: str
    retry_after_s: int | None = None


async def answer(scope: Scope, send: Send, refused: Refused) -> None:
    """Closes the connection, whose body may be only half read. Plain text; JSON to the API."""
    body, kind = f"{refused.text}\n".encode(), b"text/plain; charset=utf-8"
    if is_api(scope["path"]):
        body = json.dumps(problem_of_status(refused.status, refused.text)).encode()
        kind = b"application/json"
    headers = [
        (b"content-type", kind),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    if refused.retry_after_s is not None:
        headers.append((b"retry-after", str(refused.retry_after_s).encode()))
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _replay(body: bytes, receive: Receive, given_up: asyncio.Event) -> Receive:
    """The body first, then that the client left: when the server says so, or the page is given
    up."""
    replayed = False

    async def replay() -> MutableMapping[str, Any]:
        nonlocal replayed
        if not replayed:
            replayed = True
            return {"type": "http.request", "body": body, "more_body": False}
        told = asyncio.ensure_future(receive())
        giving_up = asyncio.ensure_future(given_up.wait())
        try:
            either: set[asyncio.Future[Any]] = {told, giving_up}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            return await told if told.done() else {"type": "http.disconnect"}
        finally:
            told.cancel()
            giving_up.cancel()

    return replay
