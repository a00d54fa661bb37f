"""S7: heads that are too large or never come, against the protocol itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import uvicorn
from uvicorn.server import ServerState

from config import http_protocol
from config.asgi_types import Application, Receive, Scope, Send
from config.http_protocol import HEAD_BYTES, BoundedProtocol

ASK = b"GET / HTTP/1.1\r\nHost: a\r\n"
UPGRADE = (
    b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


async def empty_answer(scope: Scope, receive: Receive, send: Send) -> None:
    headers = [(b"content-length", b"0")]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body"})


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """A websocket."""
    while (message := await receive())["type"] != "websocket.disconnect":
        if message["type"] == "websocket.connect":
            await send({"type": "websocket.accept"})
        else:
            await send({"type": "websocket.send", "bytes": message["bytes"]})


def masked(payload: bytes) -> bytes:
    """A binary frame of a client, masked with zeros."""
    return bytes((0x82, 0x80 | len(payload), 0, 0, 0, 0)) + payload


@asynccontextmanager
async def connection(
    application: Application = empty_answer,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    config = uvicorn.Config(
        application,
        lifespan="off",
        log_config=None,
        timeout_keep_alive=5,
    )
    config.load()
    state = ServerState()
    server = await asyncio.get_running_loop().create_server(
        lambda: BoundedProtocol(config=config, server_state=state, app_state={}), "127.0.0.1", 0
    )
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    try:
        yield reader, writer
    finally:
        writer.close()
        server.close()


async def test_a_websocket_is_no_head_that_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "HEAD_TIMEOUT_S", 0.2)
    async with asyncio.timeout(10), connection(echo) as (reader, writer):
        writer.write(ASK + UPGRADE)
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.6):  # three times as long as a head may take
                await reader.read(1)
        writer.write(masked(b"still here"))
        assert (await reader.readexactly(12)) == b"\x82\x0astill here"


@pytest.mark.parametrize(
    "head",
    [
        ASK + b"X: " + b"a" * HEAD_BYTES + b"\r\n\r\n",
        b"GET /" + b"a" * HEAD_BYTES + b" HTTP/1.1\r\nHost: a\r\n\r\n",
    ],
)
async def test_a_head_that_comes_in_one_piece_is_bounded_too(head: bytes) -> None:
    async with asyncio.timeout(10), connection() as (reader, writer):
        writer.write(head)
        assert (await reader.read(12)) == b"HTTP/1.1 431"


async def test_empty_lines_do_not_keep_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "HEAD_TIMEOUT_S", 0.2)
    async with asyncio.timeout(10), connection() as (reader, writer):
        writer.write(ASK + b"\r\n")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 204")
        writer.write(b"\r\n")
        assert await reader.read() == b""
