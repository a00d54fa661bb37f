"""When connections are taken, and when they wait."""

from __future__ import annotations

import asyncio
import errno
import resource
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from config import file_limit
from config.door import PAUSE_S, Door


class Guests(asyncio.Protocol):
    """Says hello to each; ``inside`` is how many there are."""

    inside: int = 0

    def connection_made(self, transport: Any) -> None:
        Guests.inside += 1
        transport.write(b"hello")

    def connection_lost(self, exc: Exception | None) -> None:
        Guests.inside -= 1


@asynccontextmanager
async def door(**options: Any) -> AsyncIterator[tuple[Door, int]]:
    Guests.inside = 0
    listener = socket.create_server(("127.0.0.1", 0))
    opened = Door(listener, Guests, held=lambda: Guests.inside, **options)
    try:
        yield opened, listener.getsockname()[1]
    finally:
        opened.close()
        await opened.wait_closed()


async def enters(port: int) -> asyncio.StreamWriter:
    """Returns once it is taken in."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    assert await reader.readexactly(5) == b"hello"
    return writer


async def test_beyond_the_last_place_callers_wait_and_come_in_when_one_leaves() -> None:
    """Row 09: not refused, not lost."""
    async with asyncio.timeout(20), door(most=3) as (opened, port):
        first = [await enters(port) for _ in range(3)]
        fourth = asyncio.create_task(enters(port))
        await asyncio.wait([fourth], timeout=2 * PAUSE_S)
        assert not fourth.done()
        first[0].close()
        (await fourth).close()
        assert opened.pauses >= 1


async def test_nobody_comes_in_while_it_is_shut() -> None:
    """Row 19: the last stage refuses connections."""
    is_open = [False]
    async with asyncio.timeout(20), door(most=3, open_to_all=lambda: is_open[0]) as (_, port):
        waiting = asyncio.create_task(enters(port))
        await asyncio.wait([waiting], timeout=2 * PAUSE_S)
        assert not waiting.done()
        is_open[0] = True
        (await waiting).close()


@contextmanager
def no_file_left() -> Iterator[None]:
    """Of this process, but for the ends of connections that are made within."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.socket() as highest:
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest.fileno() + 1, limits[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)


async def test_without_a_file_accepting_pauses_and_goes_on_once_there_is_one() -> None:
    """Row 09: EMFILE is neither a crash nor a busy loop."""
    async with asyncio.timeout(20), door(most=100) as (opened, port):
        with socket.socket() as client:
            client.setblocking(False)
            with no_file_left():
                assert client.connect_ex(("127.0.0.1", port)) == errno.EINPROGRESS
                await asyncio.sleep(3 * PAUSE_S)
                assert opened.pauses in range(1, 6)
                assert Guests.inside == 0
            began_s = asyncio.get_running_loop().time()
            assert await asyncio.get_running_loop().sock_recv(client, 5) == b"hello"
            assert asyncio.get_running_loop().time() - began_s < 2.0


def test_half_of_the_files_are_for_replicas() -> None:
    assert file_limit.connections_for(20_000) == 9_936
    assert file_limit.connections_for(256) == 64
    assert file_limit.connections_for(64) == file_limit.LEAST
