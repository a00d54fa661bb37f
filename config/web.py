"""How many pages work at once, and how large may their requests be?

Stands in front of Django. The body is read here, counted byte by byte, before Django sees the
request: above the limit 413, not complete in time 408. Then at most two views work at a time, so
that pages cannot starve the streams that share the process. The place is given back when the
response starts: a slow reader of a page holds nobody up.
"""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

from config.asgi_types import Application, Receive, Scope, Send

BODY_LIMIT_BYTES = 2_621_440
BODY_TIMEOUT_S = 10.0
VIEWS_AT_ONCE = 2


class BodyTooLarge(Exception):
    """More bytes arrived, or were announced, than a page may get."""


class ClientGone(Exception):
    """The connection ended before the body did."""


class Web:
    """``django`` behind the body limit and the semaphore."""

    def __init__(self, django: Application) -> None:
        self._django = django
        self._places = asyncio.Semaphore(VIEWS_AT_ONCE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with asyncio.timeout(BODY_TIMEOUT_S):
                body = await read_body(scope, receive, BODY_LIMIT_BYTES)
        except BodyTooLarge:
            await answer(send, 413, "The request body is larger than 2.5 MiB.")
        except TimeoutError:
            await answer(send, 408, "The request body did not arrive in time.")
        except ClientGone:
            return
        else:
            await self._serve(scope, _replay(body, receive), send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._places.acquire()
        held = True

        def give_back() -> None:
            nonlocal held
            if held:
                held = False
                self._places.release()

        async def send_and_give_back(message: MutableMapping[str, Any]) -> None:
            give_back()
            await send(message)

        try:
            await self._django(scope, receive, send_and_give_back)
        finally:
            give_back()


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


async def answer(send: Send, status: int, text: str) -> None:
    """A plain answer that closes the connection, whose body may be only half read."""
    body = (text + "\n").encode()
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _replay(body: bytes, receive: Receive) -> Receive:
    """The body first, then whatever the server says, which is that the client left."""
    replayed = False

    async def replay() -> MutableMapping[str, Any]:
        nonlocal replayed
        if replayed:
            return await receive()
        replayed = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
