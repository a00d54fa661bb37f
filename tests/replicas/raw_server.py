"""A server that sends bytes, whatever they are, and keeps what it was sent."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
CHUNKED = STREAM + b"Transfer-Encoding: chunked\r\n\r\n"
WHOLE = CHUNKED + b"5\r\nhello\r\n0\r\n\r\n"


@dataclass
class RawServer:
    """Answers the requests of all connections in turn with ``answers``, the last one for ever.
    ``closes``: behind each answer."""

    answers: Sequence[bytes]
    closes: bool = False
    url: str = ""
    requests: int = 0
    connections: int = 0
    left: asyncio.Event = field(default_factory=asyncio.Event)  # by the client
    _writers: list[asyncio.StreamWriter] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.append(writer)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = head.lower().partition(b"content-length: ")[2].split(b"\r\n", 1)[0]
                await reader.readexactly(int(length or 0))
                answer = self.answers[min(self.requests, len(self.answers) - 1)]
                self.requests += 1
                writer.write(answer)
                await writer.drain()
                if self.closes:
                    break
        self.left.set()
        writer.close()

    def say(self, data: bytes) -> None:
        """On every connection, unasked."""
        for writer in self._writers:
            writer.write(data)

    def leave(self) -> None:
        for writer in self._writers:
            writer.close()


@asynccontextmanager
async def raw(
    *answers: bytes, closes: bool = False, tls: ssl.SSLContext | None = None
) -> AsyncIterator[RawServer]:
    one = RawServer(answers, closes)
    server = await asyncio.start_server(one.serve, "127.0.0.1", 0, ssl=tls)
    scheme, host = ("http", "127.0.0.1") if tls is None else ("https", "localhost")
    one.url = f"{scheme}://{host}:{server.sockets[0].getsockname()[1]}"
    try:
        yield one
    finally:
        one.leave()
        server.close()
