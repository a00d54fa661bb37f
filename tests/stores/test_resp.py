"""One connection to a server: order, what is late, what is lost, and who may enter."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.stores.resp import Address, RespClient, ServerError, address_of
from tests.servers import RedisServer

PATIENT_S = 30.0


class Counted:
    """A server that counts its connections and says nothing until it is told to."""

    def __init__(self) -> None:
        self.writers: list[asyncio.StreamWriter] = []
        self.came = asyncio.Event()
        self.read = b""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        self.came.set()
        while data := await reader.read(65_536):
            self.read += data
        writer.close()


@asynccontextmanager
async def counted(timeout_s: float) -> AsyncIterator[tuple[Counted, RespClient]]:
    counted = Counted()
    server = await asyncio.start_server(counted.serve, "127.0.0.1", 0)
    client = RespClient(Address("127.0.0.1", server.sockets[0].getsockname()[1]), timeout_s)
    try:
        yield counted, client
    finally:
        await client.aclose()
        server.close()


async def test_answers_belong_to_their_commands_also_when_one_is_an_error(redis_url: str) -> None:
    client = RespClient(address_of(redis_url), PATIENT_S)
    asked = [client.ask("ECHO", number) for number in range(500)]
    wrong = client.ask("NONSENSE")
    after = client.ask("ECHO", "after")
    assert await asyncio.gather(*asked) == [str(number).encode() for number in range(500)]
    with pytest.raises(ServerError, match="unknown command"):
        await wrong
    assert await after == b"after"
    await client.aclose()


async def test_commands_of_one_turn_of_the_loop_leave_in_one_write(redis_url: str) -> None:
    client = RespClient(address_of(redis_url), PATIENT_S)
    before = await client.ask("INFO", "stats")
    await asyncio.gather(*(client.ask("ECHO", number) for number in range(100)))
    after = await client.ask("INFO", "stats")
    await client.aclose()
    assert _reads(after) - _reads(before) <= 2


def _reads(info: bytes) -> int:
    (line,) = [line for line in info.split() if line.startswith(b"total_reads_processed:")]
    return int(line.partition(b":")[2])


async def test_late_answer_raises_and_the_next_command_has_another_connection() -> None:
    async with counted(0.05) as (server, client):
        with pytest.raises(TimeoutError):
            await client.ask("PING")
        with pytest.raises(TimeoutError):
            await client.ask("PING")
        assert len(server.writers) == 2


async def test_answer_that_comes_after_another_was_late_still_counts() -> None:
    async with counted(PATIENT_S) as (server, client):
        loop = asyncio.get_running_loop()
        late = client.ask("PING", until_s=loop.time() + 0.05)
        waiting = client.ask("PING")
        with pytest.raises(TimeoutError):
            await late
        server.writers[0].write(b"+LATE\r\n+HERE\r\n")
        assert await waiting == b"HERE"


async def test_answer_of_a_cancelled_command_goes_to_nobody() -> None:
    async with counted(PATIENT_S) as (server, client):
        gone, kept = client.ask("PING"), client.ask("PING")
        await server.came.wait()
        gone.cancel()
        server.writers[0].write(b"+GONE\r\n+KEPT\r\n")
        assert await kept == b"KEPT"


@pytest.mark.parametrize("words", [b"HTTP/1.1 400 Bad Request\r\n", b"+MORE\r\n+THAN ASKED\r\n"])
async def test_server_that_speaks_something_else_is_left(words: bytes) -> None:
    async with counted(PATIENT_S) as (server, client):
        asked = client.ask("PING")
        await server.came.wait()
        server.writers[0].write(words)
        if words.startswith(b"HTTP"):
            with pytest.raises(ConnectionError):
                await asked
        else:
            assert await asked == b"MORE"
        server.came.clear()
        again = client.ask("PING")
        await server.came.wait()
        server.writers[1].write(b"+PONG\r\n")
        assert await again == b"PONG"


async def test_cut_connection_fails_what_was_asked_and_the_next_command_connects_again() -> None:
    async with counted(PATIENT_S) as (server, client):
        asked = client.ask("PING")
        await server.came.wait()
        server.writers[0].close()
        with pytest.raises(ConnectionError):
            await asked
        server.came.clear()
        again = client.ask("PING")
        await server.came.wait()
        server.writers[1].write(b"+PONG\r\n")
        assert await again == b"PONG"


async def test_nobody_listens(free_port: int) -> None:
    client = RespClient(Address("127.0.0.1", free_port), PATIENT_S)
    with pytest.raises(ConnectionRefusedError):
        await client.ask("PING")
    await client.aclose()


async def test_closing_leaves_nothing_waiting() -> None:
    async with counted(PATIENT_S) as (server, client):
        asked = client.ask("PING")
        await server.came.wait()
        await client.aclose()
        with pytest.raises(ConnectionError):
            await asked


async def test_password_and_database_come_before_the_first_command(own_redis: RedisServer) -> None:
    """Nothing reaches another database, or a server that does not let us in."""
    plain = RespClient(address_of(own_redis.url), PATIENT_S)
    await plain.ask("CONFIG", "SET", "requirepass", "secret word")
    url = f"redis://:secret%20word@127.0.0.1:{own_redis.port}/3"
    client = RespClient(address_of(url), PATIENT_S)
    await client.ask("SET", "where", "three")
    assert b"db=3" in await client.ask("CLIENT", "INFO")
    wrong = RespClient(address_of(f"redis://:wrong@127.0.0.1:{own_redis.port}/3"), PATIENT_S)
    with pytest.raises(ServerError, match="WRONGPASS"):
        await wrong.ask("SET", "where", "nowhere")
    for each in (plain, client, wrong):
        await each.aclose()


def test_addresses_are_read_as_the_library_reads_them() -> None:
    assert address_of("unix:///run/redis.sock?db=2") == Address(
        "localhost", 6379, "/run/redis.sock", greeting=(("SELECT", 2),)
    )
    named = address_of("rediss://user:word@cache.example:7000/0?ssl_cert_reqs=none")
    assert (named.host, named.port) == ("cache.example", 7000)
    assert named.tls is not None
    assert named.greeting == (("AUTH", "user", "word"),)


def unheard() -> asyncio.Future[None]:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    future.add_done_callback(lambda done: done.exception())
    return future


async def test_command_that_nobody_waits_for_leaves_before_later_ones_or_soon_by_itself() -> None:
    async with counted(PATIENT_S) as (server, client):
        client.ask("FIRST")
        await server.came.wait()
        client.ask_lazily(("LAZY",), unheard())
        client.ask("EAGER")
        client.ask_lazily(("LAST",), unheard())
        async with asyncio.timeout(10):
            while b"LAST" not in server.read:
                await asyncio.sleep(0.001)
    names = (b"FIRST", b"LAZY", b"EAGER", b"LAST")
    assert [server.read.index(name) for name in names] == sorted(map(server.read.index, names))


async def test_answer_that_came_while_the_loop_stood_still_is_not_late() -> None:
    async with counted(0.2) as (server, client):
        first = client.ask("PING")
        await server.came.wait()
        server.writers[0].write(b"+PONG\r\n")
        await first
        asked = client.ask("PING")
        await asyncio.sleep(0.02)
        server.writers[0].write(b"+PONG\r\n")
        time.sleep(0.4)  # noqa: ASYNC251 - the stall itself
        assert await asked == b"PONG"
