"""Clients on a bare socket, which can leave in every way that TCP knows."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

from tests.e2e.installation import Installation

Leaving = Literal["fin", "rst", "half-close"]
LEAVINGS: tuple[Leaving, ...] = ("fin", "rst", "half-close")


class Client:
    """One request. ``read`` returns what came; ``leave`` ends the connection, and of a half-closed
    one reads on until the other side closes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def until(self, wanted: bytes) -> bytes:
        return await self._reader.readuntil(wanted)

    async def rest(self) -> bytes:
        return await self._reader.read()

    async def leave(self, how: Leaving) -> None:
        if how == "half-close":
            self._writer.write_eof()
            await self._reader.read()
        elif how == "rst":
            raw = self._writer.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.close()


@asynccontextmanager
async def calling(
    place: Installation, body: dict[str, Any], *, key: str | None = None
) -> AsyncIterator[Client]:
    """A chat that has been sent. At the end the connection is closed in any case."""
    reader, writer = await asyncio.open_connection("127.0.0.1", place.port)
    try:
        content = json.dumps(body).encode()
        head = (
            "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
            f"Authorization: Bearer {key or place.api_key}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        writer.write(head.encode() + content)
        await writer.drain()
        yield Client(reader, writer)
    finally:
        writer.close()


def chat(model: str, content: str = "hi", **fields: Any) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": content}], **fields}
