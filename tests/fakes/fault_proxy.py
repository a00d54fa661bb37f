"""A TCP proxy that breaks connections on purpose: the eight faults of toxiproxy.

``async with proxying(url) as proxy`` listens on a free port; change ``proxy.faults`` at any time:
connections read it as they go. Faults act on what flows from the server to the client (``down`` and
``reset_peer`` on the connection). Times are seconds, sizes bytes.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

READ_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class Faults:
    latency_s: float = 0.0  # before every piece
    down: bool = False  # refuse new connections, cut the open ones
    bandwidth_bps: float | None = None  # bytes per second
    slow_close_s: float = 0.0  # the end arrives this much later
    timeout: bool = False  # swallow everything, keep the connection open
    reset_peer: bool = False  # RST as soon as the server answers
    slice_bytes: int | None = None  # pieces of this size
    limit_bytes: int | None = None  # then the connection ends


class FaultProxy:
    def __init__(self, host: str, port: int) -> None:
        self.url = ""
        self.faults = Faults()
        self._host = host
        self._port = port
        self._connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    def set(self, **changes: object) -> None:
        """Changes some faults; ``down`` also cuts what is open."""
        self.faults = replace(self.faults, **changes)  # type: ignore[arg-type]
        if self.faults.down:
            for writer in list(self._connections.values()):
                writer.transport.abort()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if self.faults.down:
            _reset(writer)
            return
        self._connections[task] = writer
        try:
            await self._relay(reader, writer)
        except (OSError, asyncio.CancelledError):
            pass  # one side is gone or the test is over: so is the connection
        finally:
            del self._connections[task]
            writer.close()

    async def stop(self) -> None:
        tasks = list(self._connections)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection(self._host, self._port)
        request = asyncio.create_task(_copy(reader, up_writer), name="to the server")
        answer = asyncio.create_task(self._answer(up_reader, writer), name="to the client")
        try:
            await asyncio.wait({request, answer}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (request, answer):
                task.cancel()
            await asyncio.gather(request, answer, return_exceptions=True)
            up_writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        passed = 0
        while data := await reader.read(READ_BYTES):
            faults = self.faults
            if faults.timeout:
                await asyncio.Event().wait()
            if faults.reset_peer:
                _reset(writer)
                return
            if faults.limit_bytes is not None:
                data = data[: max(0, faults.limit_bytes - passed)]
            passed += len(data)
            await _send(writer, data, faults)
            if faults.limit_bytes is not None and passed >= faults.limit_bytes:
                return
        await asyncio.sleep(self.faults.slow_close_s)


@asynccontextmanager
async def proxying(url: str) -> AsyncIterator[FaultProxy]:
    """``url`` is ``http://host:port``; the proxy has the same scheme at another port."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    proxy = FaultProxy(parts.hostname, parts.port)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0, backlog=2048)
    proxy.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield proxy
    finally:
        server.close()
        await proxy.stop()
        await server.wait_closed()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(READ_BYTES):
        writer.write(data)
        await writer.drain()


async def _send(writer: asyncio.StreamWriter, data: bytes, faults: Faults) -> None:
    size = faults.slice_bytes or len(data) or 1
    for at in range(0, len(data), size):
        piece = data[at : at + size]
        if faults.latency_s:
            await asyncio.sleep(faults.latency_s)
        if faults.bandwidth_bps:
            await asyncio.sleep(len(piece) / faults.bandwidth_bps)
        writer.write(piece)
        await writer.drain()


def _reset(writer: asyncio.StreamWriter) -> None:
    raw = writer.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
