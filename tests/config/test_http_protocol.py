"""S7: heads that are too large or never come, and bodies that nobody reads."""

from __future__ import annotations

import asyncio
import contextlib
import json

import pytest

from config.asgi_types import Receive, Scope, Send
from config.http_head import HEAD_BYTES
from config.lingering import LINGER_S
from tests.config.http_edge import Echo, Talk, connection, edge, talk

HEAD_S, DRIP_S = 0.4, 0.02
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


async def test_a_websocket_is_no_head_that_never_ends() -> None:
    async with asyncio.timeout(20), edge(echo, head_timeout_s=0.1) as port, talk(port) as client:
        client.writer.write(ASK + UPGRADE)
        assert (await client.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):  # three times as long as a head may take
                await client.reader.read(1)
        client.writer.write(masked(b"still here"))
        assert (await client.reader.readexactly(12)) == b"\x82\x0astill here"


@pytest.mark.parametrize(
    "head",
    [
        ASK + b"X: " + b"a" * HEAD_BYTES + b"\r\n\r\n",
        ASK + b"X: a\r\n" * 100 + b"\r\n",
        b"GET /" + b"a" * HEAD_BYTES + b" HTTP/1.1\r\nHost: a\r\n\r\n",
    ],
    ids=["long", "many", "address"],
)
async def test_a_head_that_comes_in_one_piece_is_bounded_too(head: bytes) -> None:
    """Row 10"""
    echo = Echo()
    async with asyncio.timeout(20), edge(echo) as port, talk(port) as client:
        client.writer.write(head)
        status, told, body = await client.answer()
        assert (status, json.loads(body)["error"]["code"]) == (431, "invalid_request")
        assert b"connection: close" in told
        assert await client.reader.read() == b""
    assert echo.whole == []


async def test_empty_lines_do_not_keep_a_connection() -> None:
    async with asyncio.timeout(20), edge(Echo(), head_timeout_s=0.1) as port, talk(port) as client:
        client.writer.write(ASK + b"\r\n")
        assert (await client.answer())[0] == 200
        client.writer.write(b"\r\n")
        assert await client.reader.read() == b""


async def drips(port: int) -> tuple[bytes, float]:
    """A head of which a byte comes every DRIP_S: what is said to it, and after how long."""
    began_s = asyncio.get_running_loop().time()
    async with talk(port) as client:
        client.writer.write(b"GET /v1/models HTTP/1.1\r\n")
        ended = asyncio.create_task(client.reader.read())
        while not ended.done():
            client.writer.write(b"X")
            await asyncio.wait([ended], timeout=DRIP_S)
        return ended.result(), asyncio.get_running_loop().time() - began_s


async def test_half_a_head_is_cut_in_time_and_others_are_served_meanwhile() -> None:
    """Row 06, M2: 50 heads with a byte every 20 ms; each is cut 0.4 s after it began. With 5 s and
    in thousands: tests/e2e/test_slow_heads.py."""
    async with asyncio.timeout(60), edge(Echo(), head_timeout_s=HEAD_S) as port:
        dripping = [asyncio.create_task(drips(port)) for _ in range(50)]
        served = 0
        while not all(each.done() for each in dripping):
            async with talk(port) as client:
                client.writer.write(ASK + b"\r\n")
                assert (await client.answer())[0] == 200
                served += 1
        ended = [each.result() for each in dripping]
    assert served > 10
    assert {said[:12] for said, _ in ended} == {b"HTTP/1.1 408"}
    assert all(took_s >= HEAD_S for _, took_s in ended)


async def test_a_connection_that_says_nothing_is_closed_without_a_word() -> None:
    """Row 06"""
    async with asyncio.timeout(20), edge(Echo(), head_timeout_s=0.1) as port, talk(port) as client:
        assert await client.reader.read() == b""


async def floods(client: Talk) -> int:
    """Sends until it is cut; how many bytes that were."""
    sent = 0
    with contextlib.suppress(ConnectionError):
        while sent < 300_000_000:
            client.writer.write(b"x" * 65536)
            await client.writer.drain()
            sent += 65536
    return sent


async def test_a_refused_body_is_not_read_and_its_sender_reads_the_answer() -> None:
    """Row 11. Closing at once would reset the sender, who would then not know why."""
    async with asyncio.timeout(20), edge(Echo()) as port, talk(port) as client:
        client.writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 300000000\r\n\r\n")
        flood = asyncio.create_task(floods(client))
        status, told, _ = await client.answer()
        assert (status, b"connection: close" in told) == (413, True)
        assert await flood < 32 * 1024 * 1024  # what the buffers of two sockets hold


async def test_an_answer_that_its_reader_takes_slowly_is_not_cut_by_what_follows_it() -> None:
    """The wait for the peer begins when the answer has left, not before."""
    size = 20_000_000  # more than the buffers of two sockets hold

    async def large(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-length", str(size).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"x" * size})

    async with asyncio.timeout(30), edge(large) as port, talk(port) as client:
        client.writer.write(ASK + b"\r\n" + b"nonsense\r\n\r\n")
        await asyncio.sleep(LINGER_S + 0.2)
        _, _, body = await client.answer()
        assert len(body) == size


async def test_an_idle_connection_is_closed_and_a_busy_one_is_not() -> None:
    """The timer of the first request finds the second one at work, and looks again after it."""
    asked, answered = asyncio.Event(), asyncio.Event()

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/slow":
            asked.set()
            await answered.wait()
        await empty_answer(scope, receive, send)

    async with asyncio.timeout(20), connection(slow, keep_alive_s=1) as client:
        client.writer.write(ASK + b"\r\n")
        await client.answer()
        client.writer.write(ASK.replace(b"/ ", b"/slow ") + b"\r\n")
        await asked.wait()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1.2):
                await client.reader.read(1)
        answered.set()
        assert (await client.answer())[0] == 204
        assert await client.reader.read() == b""


async def test_requests_in_one_piece_are_answered_one_after_the_other() -> None:
    at_work: list[str] = []

    async def one_at_a_time(scope: Scope, receive: Receive, send: Send) -> None:
        at_work.append(scope["path"])
        assert (await receive())["body"] == scope["path"].encode()
        await asyncio.sleep(0.01)
        assert at_work == [scope["path"]]
        at_work.clear()
        await empty_answer(scope, receive, send)

    ask = b"POST /%d HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n/%d"
    async with asyncio.timeout(20), connection(one_at_a_time) as client:
        client.writer.write(b"".join(ask % (number, number) for number in range(5)))
        for _ in range(5):
            assert (await client.answer())[0] == 204


async def test_half_a_head_behind_a_request_at_work_lets_it_be_answered_and_ends_there() -> None:
    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.sleep(0.3)  # three times as long as a head may take
        await empty_answer(scope, receive, send)

    async with asyncio.timeout(20), edge(slow, head_timeout_s=0.1) as port, talk(port) as client:
        client.writer.write(ASK + b"\r\n" + ASK)
        status, told, _ = await client.answer()
        assert (status, b"connection: close" in told) == (204, True)
        assert await client.reader.read() == b""


async def test_an_upgrade_that_is_not_done_is_answered_and_ends_the_connection() -> None:
    async with asyncio.timeout(20), connection(empty_answer) as client:
        client.writer.write(ASK + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n")
        status, told, _ = await client.answer()
        assert (status, b"connection: close" in told) == (204, True)
        assert await client.reader.read() == b""
