"""The server's protocol on a free port before a small application, for tests that speak bytes."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import uvicorn
from uvicorn.server import ServerState

from config.asgi_types import Application, Receive, Scope, Send
from config.http_protocol import HEAD_TIMEOUT_S, BoundedProtocol

MOST_BYTES = 1000
DATE = (b"date", b"Mon, 30 Nov 2026 20:00:00 GMT")  # which a server of its own writes anew


@dataclass
class Echo:
    """Answers with the path. ``whole``: paths of the requests that came to their last byte."""

    whole: list[str] = field(default_factory=list)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        status = 200
        announced = dict(scope["headers"]).get(b"content-length", b"0")
        if int(announced) > MOST_BYTES:
            status = 413
        elif not await _is_read(receive):
            return
        else:
            self.whole.append(scope["path"])
        path = scope["path"].encode()
        headers = [(b"content-length", str(len(path)).encode()), (b"x-path", path)]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": path})


async def _is_read(receive: Receive) -> bool:
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return False
        if not message.get("more_body"):
            return True


@asynccontextmanager
async def edge(
    application: Application,
    *,
    head_timeout_s: float = HEAD_TIMEOUT_S,
    keep_alive_s: int = 5,
    state: ServerState | None = None,
) -> AsyncIterator[int]:
    """The port."""
    config = uvicorn.Config(
        application, lifespan="off", log_config=None, timeout_keep_alive=keep_alive_s
    )
    config.load()
    shared = state or ServerState()
    shared.default_headers = [DATE]

    def protocol() -> BoundedProtocol:
        return BoundedProtocol(config, shared, {}, head_timeout_s=head_timeout_s)

    server = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


@dataclass(slots=True)
class Talk:
    """One connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def answer(self) -> tuple[int, bytes, bytes]:
        """Status, head, body of the next answer. Raises IncompleteReadError where none comes."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
        body = await self.reader.readexactly(int(length[1]) if length else 0)
        return int(head[9:12]), head, body


@asynccontextmanager
async def talk(port: int) -> AsyncIterator[Talk]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Talk(reader, writer)
    finally:
        writer.close()


@asynccontextmanager
async def connection(
    application: Application, *, keep_alive_s: int = 5, state: ServerState | None = None
) -> AsyncIterator[Talk]:
    """To an edge of its own."""
    at = edge(application, keep_alive_s=keep_alive_s, state=state)
    async with at as port, talk(port) as client:
        yield client
