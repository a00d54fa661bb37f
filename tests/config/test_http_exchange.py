"""What an application and its client see of each other, byte for byte."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from uvicorn.server import ServerState

from config.asgi_types import Receive, Scope, Send
from gateway.pipeline.caller import CALLER, Caller, done
from tests.config.http_edge import DATE, connection
from tests.config.test_http_protocol import ASK

MUCH_BYTES = 50_000_000  # more than sockets hold
OK = {"type": "http.response.start", "status": 200}


def start(*headers: tuple[bytes, bytes]) -> dict[str, Any]:
    return {**OK, "headers": list(headers)}


def body(text: bytes = b"", *, more: bool = False) -> dict[str, Any]:
    return {"type": "http.response.body", "body": text, "more_body": more}


async def told(*messages: dict[str, Any], ask: bytes = ASK + b"Connection: close\r\n\r\n") -> bytes:
    """What a client reads until the connection ends."""

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        for message in messages:
            await send(message)

    async with asyncio.timeout(10), connection(application) as client:
        client.writer.write(ask)
        return await client.reader.read()


async def test_answer_of_known_length() -> None:
    assert await told(start((b"Content-Length", b"2"), (b"X-A", b"b")), body(b"hi")) == (
        b"HTTP/1.1 200 OK\r\ndate: " + DATE[1] + b"\r\n"
        b"content-length: 2\r\nx-a: b\r\nconnection: close\r\n\r\nhi"
    )


async def test_an_answer_has_the_date_of_its_own_second() -> None:
    state = ServerState()

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        state.default_headers = [(b"date", b"Mon, 30 Nov 2026 20:00:01 GMT")]
        await send(start((b"content-length", b"0")))
        await send(body())

    async with asyncio.timeout(10), connection(slow, state=state) as client:
        client.writer.write(ASK + b"\r\n")
        _, head, _ = await client.answer()
    assert b"\r\ndate: Mon, 30 Nov 2026 20:00:01 GMT\r\n" in head


async def test_answer_in_chunks() -> None:
    said = await told(start(), body(b"hello", more=True), body(more=True), body(b"!"))
    assert said.endswith(
        b"connection: close\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n"
    )


async def test_head_has_no_body() -> None:
    ask = ASK.replace(b"GET", b"HEAD") + b"Connection: close\r\n\r\n"
    said = await told(start((b"content-length", b"9")), body(b"not shown"), ask=ask)
    assert said.endswith(b"content-length: 9\r\nconnection: close\r\n\r\n")


@pytest.mark.parametrize("header", [(b"x-a", b"b\r\nset-cookie: c"), (b"x-a: b", b"c")])
async def test_header_that_would_split_the_head_is_refused(header: tuple[bytes, bytes]) -> None:
    assert b" 500 " in await told(start(header), body(b"hi"))


@pytest.mark.parametrize("text", [b"short", b"much too long"])
async def test_body_that_is_not_as_long_as_it_said_ends_the_connection(text: bytes) -> None:
    said = await told(start((b"content-length", b"9")), body(text), ask=ASK + b"\r\n")
    assert not said.endswith(b"\r\n\r\nmuch too long")


async def test_a_head_without_a_body_goes_out_at_once() -> None:
    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        await send(start())
        await receive()
        await receive()

    async with asyncio.timeout(10), connection(slow) as client:
        client.writer.write(ASK + b"\r\n")
        assert (await client.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")


async def test_a_piece_is_written_from_outside_of_the_application() -> None:
    """Not before the head, and not for a body of known length or one that is over."""
    answers: list[bool] = []

    async def streams(scope: Scope, receive: Receive, send: Send) -> None:
        say_now = scope["extensions"][CALLER].say_now
        answers.append(say_now(b"early"))
        await send(start())
        answers.append(say_now(b"before the head"))
        await send(body(b"a", more=True))
        answers.append(say_now(b"bc"))
        await send(body(b"d"))
        answers.append(say_now(b"late"))

    async with asyncio.timeout(10), connection(streams) as client:
        client.writer.write(ASK + b"Connection: close\r\n\r\n")
        said = await client.reader.read()
    assert answers == [False, False, True, False]
    assert said.endswith(b"\r\n\r\n1\r\na\r\n2\r\nbc\r\n1\r\nd\r\n0\r\n\r\n")


async def test_nothing_is_written_at_once_to_a_client_that_does_not_read() -> None:
    written = 0

    async def streams(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal written
        say_now = scope["extensions"][CALLER].say_now
        await send(start())
        await send(body(b"a", more=True))
        while written < MUCH_BYTES and say_now(b"x" * 100_000):
            written += 100_000
        await send(body(b"!"))

    async with asyncio.timeout(10), connection(streams) as client:
        client.writer.write(ASK + b"Connection: close\r\n\r\n")
        said = await client.reader.read()
    assert 0 < written < MUCH_BYTES
    assert said.endswith(b"1\r\n!\r\n0\r\n\r\n")
    assert said.count(b"x") == written


async def test_body_is_received_in_pieces_and_then_the_end_of_the_client() -> None:
    messages: list[dict[str, Any]] = []
    first, over = asyncio.Event(), asyncio.Event()

    async def listen(scope: Scope, receive: Receive, send: Send) -> None:
        while not messages or messages[-1]["type"] != "http.disconnect":
            messages.append(dict(await receive()))
            first.set()
        over.set()

    async with asyncio.timeout(10), connection(listen) as client:
        client.writer.write(ASK.replace(b"GET", b"POST") + b"Content-Length: 4\r\n\r\nab")
        await first.wait()
        client.writer.write(b"cd")
        client.writer.write_eof()
        await over.wait()
    pieces = [message["body"] for message in messages[:-1]]
    assert pieces == [b"ab", b"cd"]
    assert [message["more_body"] for message in messages[:-1]] == [True, False]


async def test_caller_that_waits_for_leave_to_send_its_body_gets_it() -> None:
    async def echo(scope: Scope, receive: Receive, send: Send) -> None:
        text = (await receive())["body"]
        await send(start((b"content-length", b"%d" % len(text))))
        await send(body(text))

    async with asyncio.timeout(10), connection(echo) as client:
        client.writer.write(ASK + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        assert await client.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.writer.write(b"hi")
        assert (await client.reader.readuntil(b"\r\n\r\nhi")).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("late", [False, True])
async def test_whoever_asks_is_told_once_that_the_client_left(late: bool) -> None:
    asked, left = asyncio.Event(), asyncio.Event()
    times: list[None] = []

    def told() -> None:
        times.append(None)
        left.set()

    async def watch(scope: Scope, receive: Receive, send: Send) -> None:
        asked.set()
        if late:
            while (await receive())["type"] != "http.disconnect":
                pass
        when_gone[0](told)
        await left.wait()

    when_gone: list[Any] = []

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        when_gone.append(scope["extensions"][CALLER].when_gone)
        await watch(scope, receive, send)

    async with asyncio.timeout(10), connection(application) as client:
        client.writer.write(ASK + b"\r\n")
        await asked.wait()
        client.writer.close()
        await left.wait()
        await asyncio.sleep(0)
    assert len(times) == 1


async def test_an_application_that_fails_before_it_answers_is_a_500() -> None:
    async def broken(scope: Scope, receive: Receive, send: Send) -> None:
        raise ZeroDivisionError

    async with asyncio.timeout(10), connection(broken) as client:
        client.writer.write(ASK + b"\r\n")
        assert (await client.reader.readuntil(b"Internal Server Error")).startswith(b"HTTP/1.1 500")


async def test_who_breaks_its_body_is_refused_and_counts_as_gone() -> None:
    asked, left = asyncio.Event(), asyncio.Event()

    async def watch(scope: Scope, receive: Receive, send: Send) -> None:
        scope["extensions"][CALLER].when_gone(left.set)
        asked.set()
        await left.wait()

    async with asyncio.timeout(20), connection(watch) as client:
        client.writer.write(ASK + b"Transfer-Encoding: chunked\r\n\r\n")
        await asked.wait()
        client.writer.write(b"no size of a chunk\r\n")
        assert (await client.answer())[0] == 400
        assert left.is_set()  # before the refusal went out


async def test_what_is_said_without_messages_reads_as_if_it_had_been_sent() -> None:
    async def say(scope: Scope, receive: Receive, send: Send) -> None:
        caller: Caller = scope["extensions"][CALLER]
        assert caller.whole_body() == b"ab"
        assert caller.say(b"hello", (200, [(b"x-a", b"b")]), more=True) is None
        assert caller.say(b"!", more=False) is None

    ask = ASK.replace(b"GET", b"POST") + b"Connection: close\r\nContent-Length: 2\r\n\r\nab"
    async with asyncio.timeout(10), connection(say) as client:
        client.writer.write(ask)
        said = await client.reader.read()
    assert said.startswith(b"HTTP/1.1 200 OK\r\ndate: ")
    assert said.endswith(
        b"x-a: b\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n"
        b"5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n"
    )


async def test_who_says_more_than_its_caller_reads_must_wait() -> None:
    """Measured in pieces: one waits before the system's buffers could take a hundred MiB."""
    piece, waited = b"x" * 1_048_576, asyncio.Event()
    said = 1

    async def say(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal said
        caller: Caller = scope["extensions"][CALLER]
        waits = caller.say(piece, (200, []), more=True)
        while waits is None and said < 100:
            waits, said = caller.say(piece, more=True), said + 1
        waited.set()
        await done(waits)
        await done(caller.say(b"", more=False))

    async with asyncio.timeout(20), connection(say) as client:
        client.writer.write(ASK + b"Connection: close\r\n\r\n")
        await waited.wait()
        assert said < 100
        text = await client.reader.read()
    assert text.count(b"x") == said * len(piece)
