"""What did the caller send, and is it still there? The ASGI side of one call's request.

The body is read within bounds of bytes and time. After it the only thing left to hear from the
caller is that it left; ``watched`` listens for that, as a task where the server does not tell it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from gateway.core.errors import Interrupted, Rejected
from gateway.core.reasons import Reason
from gateway.pipeline.classify import body_too_large
from gateway.pipeline.running import Interruption
from gateway.wire.dialect import BodyBounds, Dialect, ParsedBody
from gateway.wire.headers import check_content

Receive = Callable[[], Awaitable[dict[str, Any]]]
WhenGone = Callable[[Callable[[], None] | None], None]  # None: nobody is to be told any more

GONE = "fairway.gone"  # extension of the scope, of our own server: a WhenGone
OFF_LOOP_BYTES = 256 * 1024  # larger bodies are parsed in a thread
BOUNDS = BodyBounds()


@dataclass(frozen=True, slots=True)
class Incoming:
    dialect: Dialect
    headers: Mapping[str, str]  # names in lower case
    peer: str
    receive: Receive
    when_gone: WhenGone | None = None  # None: only ``receive`` tells that the caller left

    async def parsed_body(self, *, most_bytes: int, timeout_s: float) -> ParsedBody:
        """Raises Rejected (BODY_TOO_LARGE, BODY_TIMEOUT, UNSUPPORTED_ENCODING, INVALID_REQUEST) or
        Interrupted when the caller left before it had said all."""
        check_content(self.headers)
        self._check_declared_length(most_bytes)
        try:
            async with asyncio.timeout(timeout_s):
                raw = await self._body(most_bytes)
        except TimeoutError:
            raise Rejected(Reason.BODY_TIMEOUT) from None
        if len(raw) > OFF_LOOP_BYTES:
            return await asyncio.to_thread(self.dialect.parse, raw, BOUNDS)
        return self.dialect.parse(raw, BOUNDS)

    @contextmanager
    def watched(self, interruption: Interruption) -> Iterator[None]:
        """Interrupts when the caller leaves. A half-closed connection counts as left."""
        if self.when_gone is not None:
            self.when_gone(lambda: interruption.interrupt(Interrupted(Reason.CLIENT_GONE)))
            try:
                yield
            finally:
                self.when_gone(None)
            return
        watcher = asyncio.get_running_loop().create_task(
            self._until_gone(interruption), name="watch for disconnect"
        )
        try:
            yield
        finally:
            watcher.cancel()

    async def _until_gone(self, interruption: Interruption) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass
        interruption.interrupt(Interrupted(Reason.CLIENT_GONE))

    async def _body(self, most_bytes: int) -> bytes:
        parts: list[bytes] = []
        size = 0
        while True:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise Interrupted(Reason.CLIENT_GONE)
            part = message.get("body", b"")
            size += len(part)
            if size > most_bytes:
                raise body_too_large(most_bytes)
            parts.append(part)
            if not message.get("more_body", False):
                return b"".join(parts)

    def _check_declared_length(self, most_bytes: int) -> None:
        declared = self.headers.get("content-length", "")
        if declared.isascii() and declared.isdigit() and int(declared[:20]) > most_bytes:
            raise body_too_large(most_bytes)
