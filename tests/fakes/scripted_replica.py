"""A byte-exact HTTP server that plays scripts, over a real socket.

``replica.next(script, …)`` queues answers for the POSTs to come; when the queue is empty
``default`` answers. ``routes`` answers GETs by path. Each request is kept with its bytes and with
the moment at which its client left, so that a test awaits ``request.gone`` instead of sleeping.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.fakes.scripts import (
    HEALTHY,
    Cut,
    Hang,
    Script,
    Send,
    Step,
    Wait,
    metrics,
    status,
    tokens,
)


@dataclass(eq=False)
class Received:
    """One request. ``gone`` is set when its client closed before the script was over."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    connection: int
    sent_bytes: int = 0
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    over: asyncio.Event = field(default_factory=asyncio.Event)
    gone_at_s: float | None = None

    @property
    def is_call(self) -> bool:
        """The gateway's own questions, such as how a template renders, are none."""
        return self.method == "POST" and self.path.startswith("/v1/")


class ScriptedReplica:
    """Use ``async with running() as replica``."""

    def __init__(self, default: Script | Callable[[bytes], Script] | None = None) -> None:
        self.default = default or tokens(3)  # a function is given the body
        self.routes: dict[str, Script | Callable[[], Script]] = {
            "/health": HEALTHY,
            "/metrics": metrics(),
        }
        self.received: list[Received] = []
        self.connections = 0
        self.close_after_stream = False  # the keep-alive lie of llama.cpp
        self.url = ""
        self._queue: deque[Script] = deque()
        self._arrived = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()

    def next(self, *scripts: Script) -> None:
        self._queue.extend(scripts)

    @property
    def calls(self) -> list[Received]:
        return [request for request in self.received if request.is_call]

    @property
    def open_calls(self) -> int:
        return sum(not (call.gone.is_set() or call.over.is_set()) for call in self.calls)

    async def arrival(self, count: int = 1) -> Received:
        """Waits for the ``count``-th POST."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: len(self.calls) >= count)
        return self.calls[count - 1]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self.connections += 1
        connection = self.connections
        try:
            while (request := await _read_request(reader, connection)) is not None:
                async with self._arrived:
                    self.received.append(request)
                    self._arrived.notify_all()
                if not await self._play(self._script_for(request), request, reader, writer):
                    break
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client is gone or the test is over
        finally:
            writer.close()

    async def stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _script_for(self, request: Received) -> Script:
        if request.is_call:
            if self._queue:
                return self._queue.popleft()
            return self.default if isinstance(self.default, Script) else self.default(request.body)
        answer = self.routes.get(request.path, status(404))
        return answer if isinstance(answer, Script) else answer()

    async def _play(
        self,
        script: Script,
        request: Received,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> bool:
        """Plays until the script is over or the client is gone. True = the connection lives on."""
        player = asyncio.create_task(_perform(script, request, writer), name="script")
        watcher = asyncio.create_task(reader.read(1), name="watch the client")
        try:
            await asyncio.wait({player, watcher}, return_when=asyncio.FIRST_COMPLETED)
            if not player.done():
                _mark_gone(request)
                return False
            failed = player.exception()
            if isinstance(failed, OSError):
                _mark_gone(request)
            elif failed is not None:
                raise failed
            request.over.set()
            return failed is None and player.result() and not self.close_after_stream
        finally:
            for task in (player, watcher):
                task.cancel()
            await asyncio.gather(player, watcher, return_exceptions=True)


@asynccontextmanager
async def running(
    default: Script | Callable[[bytes], Script] | None = None, port: int = 0
) -> AsyncIterator[ScriptedReplica]:
    replica = ScriptedReplica(default)
    server = await asyncio.start_server(replica.serve, "127.0.0.1", port, backlog=2048)
    replica.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield replica
    finally:
        server.close()
        await replica.stop()
        await server.wait_closed()


def _mark_gone(request: Received) -> None:
    request.gone_at_s = asyncio.get_running_loop().time()
    request.gone.set()


async def _read_request(reader: asyncio.StreamReader, connection: int) -> Received | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers = {}
    for line in filter(None, lines):
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Received(method, path, headers, body, connection)


async def _perform(script: Script, request: Received, writer: asyncio.StreamWriter) -> bool:
    """True = the answer ended cleanly and the connection may be used again."""
    for step in script.headers_after:
        if not await _step(step, script, request, writer):
            return False
    writer.write(b"HTTP/1.1 100 Continue\r\n\r\n" * script.interim)
    framing = "Transfer-Encoding: chunked" if script.chunked else "Connection: close"
    lines = [f"HTTP/1.1 {script.status} Scripted", framing]
    lines += [f"{name}: {value}" for name, value in script.headers]
    writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
    await writer.drain()
    for step in script.steps:
        if not await _step(step, script, request, writer):
            return False
    if script.chunked:
        writer.write(b"0\r\n\r\n")
        await writer.drain()
    return script.chunked


async def _step(
    step: Step, script: Script, request: Received, writer: asyncio.StreamWriter
) -> bool:
    """False = the connection was cut."""
    match step:
        case Send(data):
            frame = b"%x\r\n%b\r\n" % (len(data), data) if script.chunked else data
            writer.write(frame if data else b"")
            await writer.drain()
            request.sent_bytes += len(data)
        case Wait(seconds):
            await asyncio.sleep(seconds)
        case Hang():
            await asyncio.Event().wait()
        case Cut(reset):
            if reset:
                _send_reset_on_close(writer)
            return False
    return True


def _send_reset_on_close(writer: asyncio.StreamWriter) -> None:
    raw = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
