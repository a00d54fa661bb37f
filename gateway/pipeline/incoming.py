"""What did the caller send, and is it still there? The ASGI side of one call's request.

The body is read within bounds of bytes and time. After it the only thing left to hear from the
caller is that it left; ``watched`` listens for that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import TracebackType

import msgspec

from gateway.core.errors import Interrupted, Rejected
from gateway.core.reasons import Reason
from gateway.pipeline.caller import Caller
from gateway.pipeline.classify import body_too_large
from gateway.pipeline.running import Interruption
from gateway.wire.dialect import BodyBounds, Dialect, ParsedBody
from gateway.wire.headers import check_content

OFF_LOOP_BYTES = 256 * 1024  # larger bodies are parsed in a thread
BOUNDS = BodyBounds()


class Incoming(msgspec.Struct, frozen=True):
    dialect: Dialect
    headers: Mapping[str, str]  # names in lower case
    peer: str
    caller: Caller

    async def parsed_body(self, *, most_bytes: int, timeout_s: float) -> ParsedBody:
        """Raises Rejected (BODY_TOO_LARGE, BODY_TIMEOUT, UNSUPPORTED_ENCODING, INVALID_REQUEST) or
        Interrupted when the caller left before it had said all."""
        check_content(self.headers)
        raw = self.caller.whole_body()
        if raw is None:
            raw = await self._body_in_time(most_bytes, timeout_s)
        elif len(raw) > most_bytes:
            raise body_too_large(most_bytes)
        if len(raw) > OFF_LOOP_BYTES:
            return await asyncio.to_thread(self.dialect.parse, raw, BOUNDS)
        return self.dialect.parse(raw, BOUNDS)

    def watched(self, interruption: Interruption) -> Watched:
        return Watched(self.caller, interruption)

    async def _body_in_time(self, most_bytes: int, timeout_s: float) -> bytes:
        self._check_declared_length(most_bytes)
        try:
            async with asyncio.timeout(timeout_s):
                return await self._body(most_bytes)
        except TimeoutError:
            raise Rejected(Reason.BODY_TIMEOUT) from None

    async def _body(self, most_bytes: int) -> bytes:
        parts: list[bytes] = []
        size = 0
        while True:
            message = await self.caller.receive()
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

    __slots__ = ("_caller", "_interruption")

    def __init__(self, caller: Caller, interruption: Interruption) -> None:
        self._caller = caller
        self._interruption = interruption

    def __enter__(self) -> None:
        self._caller.when_gone(self._gone)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._caller.when_gone(None)

    def _gone(self) -> None:
        self._interruption.interrupt(Interrupted(Reason.CLIENT_GONE))
