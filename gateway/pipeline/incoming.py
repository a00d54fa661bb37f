"""What did the caller send, and is it still there? The ASGI side of one call's request.

The body is read within bounds of bytes and time. After it the only thing left to hear from the
caller is that it left; ``watched`` listens for that, as a task where the server does not tell it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from gateway.core.errors import Interrupted, Rejected
from gateway.core.reasons import Reason
from gateway.pipeline.classify import body_too_large
from gateway.pipeline.running import Interruption
from gateway.wire.dialect import BodyBounds, Dialect, ParsedBody
from gateway.wire.headers import check_content

Receive = Callable[[], Awaitable[dict[str, Any]]]
Whole = Callable[[], bytes | None]  # the body, once, if nothing is left to come
WhenGone = Callable[[Callable[[], None] | None], None]  # None: nobody is to be told any more

GONE = "fairway.gone"  # extensions of the scope, of our own server: a WhenGone
WHOLE_BODY = "fairway.whole_body"  # and a Whole
WRITE_NOW = "fairway.write_now"  # and a WriteNow
OFF_LOOP_BYTES = 256 * 1024  # larger bodies are parsed in a thread
BOUNDS = BodyBounds()


@dataclass(frozen=True, slots=True)
class Incoming:
    dialect: Dialect
    headers: Mapping[str, str]  # names in lower case
    peer: str
    receive: Receive
    when_gone: WhenGone | None = None  # None: only ``receive`` tells that the caller left
    whole: Whole | None = None  # None: only ``receive`` gives the body

    async def parsed_body(self, *, most_bytes: int, timeout_s: float) -> ParsedBody:
        """Raises Rejected (BODY_TOO_LARGE, BODY_TIMEOUT, UNSUPPORTED_ENCODING, INVALID_REQUEST) or
        Interrupted when the caller left before it had said all."""
        check_content(self.headers)
        self._check_declared_length(most_bytes)
        raw = None if self.whole is None else self.whole()
        if raw is None:
            try:
                async with asyncio.timeout(timeout_s):
                    raw = await self._body(most_bytes)
            except TimeoutError:
                raise Rejected(Reason.BODY_TIMEOUT) from None
        elif len(raw) > most_bytes:
            raise body_too_large(most_bytes)
        if len(raw) > OFF_LOOP_BYTES:
            return await asyncio.to_thread(self.dialect.parse, raw, BOUNDS)
        return self.dialect.parse(raw, BOUNDS)

    def watched(self, interruption: Interruption) -> Watched:
        return Watched(self, interruption)

    async def until_gone(self) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass

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


class Watched:
    """A context that interrupts when the caller leaves. A half-closed connection counts as left."""

    __slots__ = ("_incoming", "_interruption", "_watcher")

    def __init__(self, incoming: Incoming, interruption: Interruption) -> None:
        self._incoming = incoming
        self._interruption = interruption
        self._watcher: asyncio.Task[None] | None = None

    def __enter__(self) -> None:
        when_gone = self._incoming.when_gone
        if when_gone is not None:
            when_gone(self._gone)
        else:
            watching = self._watch()
            self._watcher = asyncio.create_task(watching, name="watch for disconnect")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._watcher is not None:
            self._watcher.cancel()
        elif self._incoming.when_gone is not None:
            self._incoming.when_gone(None)

    async def _watch(self) -> None:
        await self._incoming.until_gone()
        self._gone()

    def _gone(self) -> None:
        self._interruption.interrupt(Interrupted(Reason.CLIENT_GONE))
