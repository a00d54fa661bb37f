"""The connection to one caller: what came over it, what is said over it, when it is gone.

Our own server offers a ``Caller`` for each request, in the extensions of its scope; nothing that
could be done at once needs a task, a future or a message there. Under another server ``AsgiCaller``
does the same with ``receive`` and ``send``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

CALLER = "fairway.caller"  # the extension of the scope

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Head = tuple[int, Sequence[tuple[bytes, bytes]]]  # status and headers
Waits = Awaitable[None] | None  # None: done. Else it is done once this has been awaited, at once


class Caller(Protocol):
    def receive(self) -> Awaitable[Any]:
        """The next message of the request, as ASGI has them."""
        ...

    def whole_body(self) -> bytes | None:
        """The body, once, if nothing of it is left to come; else ``receive`` gives it."""
        ...

    def when_gone(self, told: Callable[[], None] | None) -> None:
        """``told`` is called once the caller has left, never from within this call. None: nobody
        is to be told any more."""
        ...

    def say(self, body: bytes, head: Head | None = None, *, more: bool) -> Waits:
        """The next piece of the answer, with its head before the first one. Must wait where the
        caller reads slowly."""
        ...

    def say_now(self, body: bytes) -> bool:
        """More of an answer in chunks. False: nothing was said, it cannot be without waiting."""
        ...


class AsgiCaller:
    """Implements Caller."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self.receive = receive
        self._send = send
        self._watcher: asyncio.Task[None] | None = None

    def whole_body(self) -> bytes | None:
        return None

    def when_gone(self, told: Callable[[], None] | None) -> None:
        if self._watcher is not None:
            self._watcher.cancel()
        if told is not None:
            watching = self._watch(told)
            self._watcher = asyncio.create_task(watching, name="watch for disconnect")

    def say(self, body: bytes, head: Head | None = None, *, more: bool) -> Waits:
        return self._say(body, head, more=more)

    def say_now(self, body: bytes) -> bool:
        return False

    async def _say(self, body: bytes, head: Head | None, *, more: bool) -> None:
        if head is not None:
            status, headers = head
            start = {"type": "http.response.start", "status": status, "headers": list(headers)}
            await self._send(start)
        if body or not more:
            await self._send({"type": "http.response.body", "body": body, "more_body": more})

    async def _watch(self, told: Callable[[], None]) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass
        told()


def caller_of(scope: dict[str, Any], receive: Receive, send: Send) -> Caller:
    offered: Caller | None = scope.get("extensions", {}).get(CALLER)
    return AsgiCaller(receive, send) if offered is None else offered


async def done(waits: Waits) -> None:
    """Where it does not matter that most of the time there is nothing to wait for."""
    if waits is not None:
        await waits
