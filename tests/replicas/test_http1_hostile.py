"""Answers that no honest server gives: each has one meaning, costs bounded memory, and never
reaches the next call."""

from __future__ import annotations

import asyncio

import pytest

from gateway.core.errors import ConnectionLost, ReplicaUnreachable, UpstreamError
from gateway.core.reasons import Reason
from gateway.replicas.http1.connection import HEAD_BYTES, INTERIM
from gateway.replicas.http_upstream import HttpUpstream
from gateway.replicas.upstream import AttemptTimeouts
from tests.replicas.calls import CHAT, SHORT, chunks, read, target
from tests.replicas.raw_server import CHUNKED, STREAM, WHOLE, raw

LONG_BYTES = 8 * HEAD_BYTES  # more than one read
INTERIM_ANSWER = b"HTTP/1.1 100 Continue\r\n\r\n"

GARBLED = {
    "no HTTP": b"SSH-2.0-OpenSSH_9.9\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "no status": b"HTTP/1.1 OK\r\n\r\n",
    "length and chunks": STREAM + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nhello",
    "two lengths": STREAM + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
    "negative length": STREAM + b"Content-Length: -5\r\n\r\n",
    "NUL in a field": STREAM + b"X-A: a\0b\r\n\r\n",
    "field without a colon": STREAM + b"nonsense\r\n\r\n",
    "space before the colon": STREAM + b"X-A : b\r\n\r\n",
    "other protocol": b"HTTP/1.1 101 X\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n",
    "one long field": STREAM + b"X-A: " + b"a" * HEAD_BYTES,
    "one long unfinished name": STREAM + b"a" * (HEAD_BYTES + 1),
    "many fields": STREAM + b"X-A: b\r\n" * 200 + b"\r\n",
    "endless interim answers": INTERIM_ANSWER * (INTERIM + 1),
    "long fields": STREAM + (b"X-A: " + b"a" * (HEAD_BYTES // 2) + b"\r\n") * 2 + b"\r\n",
    "endless interim head": b"HTTP/1.1 103 X\r\n" + b"Link: a\r\n" * 200,
}

CUT = {
    "size that is no number": CHUNKED + b"zz\r\nhello\r\n",
    "size beyond 64 bits": CHUNKED + b"fffffffffffffffff\r\nhello",
    "chunk longer than its size": CHUNKED + b"3\r\nhello\r\n",
    "endless chunk extension": CHUNKED + b"5;" + b"a" * LONG_BYTES,
    "endless trailer": CHUNKED + b"0\r\nX-A: " + b"a" * LONG_BYTES,
    "many trailers": CHUNKED + b"0\r\n" + b"X-A: b\r\n" * 200,
}


async def refused(upstream: HttpUpstream, answer: bytes, *, closes: bool = False) -> UpstreamError:
    async with raw(answer, closes=closes) as server:
        with pytest.raises(UpstreamError) as caught:
            await read(upstream, target(server.url))
        await server.left.wait()
    return caught.value


@pytest.mark.parametrize("name", GARBLED)
async def test_answer_that_is_not_http_fails_at_once(upstream: HttpUpstream, name: str) -> None:
    """Row 44: nothing waits for a limit of time, and the connection is closed."""
    error = await refused(upstream, GARBLED[name])
    assert error.reason is Reason.UPSTREAM_ERROR
    assert "not valid HTTP" in error.message
    assert error.retryable


@pytest.mark.parametrize("name", CUT)
async def test_body_that_is_not_http_is_cut(upstream: HttpUpstream, name: str) -> None:
    error = await refused(upstream, CUT[name])
    assert isinstance(error, ConnectionLost)
    assert error.reason is Reason.UPSTREAM_INCOMPLETE


@pytest.mark.parametrize("coding", [b"gzip", b"gzip, chunked", b"identity", b"x"])
async def test_body_in_another_transfer_coding_is_refused(
    upstream: HttpUpstream, coding: bytes
) -> None:
    answer = STREAM + b"Transfer-Encoding: %b\r\n\r\n" % coding
    error = await refused(upstream, answer, closes=True)
    assert error.reason is Reason.UPSTREAM_ERROR


async def test_second_content_encoding_does_not_hide_behind_the_first(
    upstream: HttpUpstream,
) -> None:
    encodings = b"Content-Encoding: identity\r\nContent-Encoding: gzip\r\n"
    error = await refused(upstream, STREAM + encodings + b"Content-Length: 2\r\n\r\nxx")
    assert "encoding" in error.message


async def test_short_body_of_a_named_length_is_cut(upstream: HttpUpstream) -> None:
    error = await refused(upstream, STREAM + b"Content-Length: 9\r\n\r\nhello", closes=True)
    assert error.reason is Reason.UPSTREAM_INCOMPLETE


async def test_many_interim_answers_in_one_read_are_skipped(upstream: HttpUpstream) -> None:
    """Row 44"""
    async with raw(INTERIM_ANSWER * INTERIM + WHOLE) as server:
        assert await read(upstream, target(server.url)) == b"hello"


async def test_interim_answer_does_not_lend_its_headers(upstream: HttpUpstream) -> None:
    early = b"HTTP/1.1 103 Early\r\nContent-Type: text/event-stream\r\n\r\n"
    answer = early + b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nxx"
    assert "media type" in (await refused(upstream, answer)).message


async def test_second_answer_is_not_taken_for_that_of_the_next_call(
    upstream: HttpUpstream,
) -> None:
    evil = CHUNKED + b"4\r\nevil\r\n0\r\n\r\n"
    async with raw(WHOLE + evil, WHOLE) as server:
        for _ in range(2):
            assert await read(upstream, target(server.url)) == b"hello"
        assert server.connections == 2


async def test_what_is_said_unasked_closes_a_kept_connection(upstream: HttpUpstream) -> None:
    async with raw(WHOLE) as server:
        await read(upstream, target(server.url))
        server.say(CHUNKED + b"4\r\nevil\r\n0\r\n\r\n")
        assert await read(upstream, target(server.url)) == b"hello"
        assert server.connections == 2


async def test_connection_that_its_server_closed_is_not_written_to(
    upstream: HttpUpstream,
) -> None:
    """The end of the connection has arrived, yet the loop has not read it."""
    async with raw(WHOLE) as server:
        for _ in range(20):
            assert await read(upstream, target(server.url)) == b"hello"
            server.leave()
            await asyncio.sleep(0)
        assert server.requests == server.connections == 20


async def test_request_is_never_sent_twice(upstream: HttpUpstream) -> None:
    """The server may have begun: whether another try is safe is not decided here."""
    async with raw(WHOLE, b"", closes=False) as server:
        await read(upstream, target(server.url))
        lost = asyncio.create_task(read(upstream, target(server.url)))
        while server.requests < 2:
            await asyncio.sleep(0)
        server.leave()
        with pytest.raises(ConnectionLost) as caught:
            await lost
        assert caught.value.reason is Reason.UPSTREAM_ERROR
        assert server.requests == 2


async def test_connection_whose_server_says_close_is_not_kept(upstream: HttpUpstream) -> None:
    said = STREAM + b"Connection: close\r\nContent-Length: 5\r\n\r\nhello"
    async with raw(said) as server:
        for _ in range(2):
            assert await read(upstream, target(server.url)) == b"hello"
        assert server.connections == 2


async def test_answer_of_which_little_was_read_does_not_hold_back_the_next(
    upstream: HttpUpstream,
) -> None:
    """It has come whole, and reading has stopped because most of it waits to be read."""
    part = b"%x\r\n%b\r\n" % (60_000, b"x" * 60_000)
    async with raw(CHUNKED + part * 2 + b"0\r\n\r\n") as server:
        for _ in range(5):
            async with upstream.stream(target(server.url), CHAT, b"{}", {}, SHORT) as stream:
                assert set(await anext(aiter(chunks(stream)))) == {ord("x")}
        assert server.requests == 5


async def test_kept_connection_is_closed_before_its_server_would_do_it(
    upstream: HttpUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.replicas.http1.pool.KEEP_ALIVE_S", 0.02)
    async with raw(WHOLE) as server:
        await read(upstream, target(server.url))
        async with asyncio.timeout(5):
            await server.left.wait()


async def test_line_breaks_in_a_header_are_not_sent(upstream: HttpUpstream) -> None:
    async with raw(WHOLE) as server:
        for value in ("a\r\nX-Evil: 1", "a\nb", "a\0b", "\u2028"):
            with pytest.raises(UpstreamError):
                await read(upstream, target(server.url), headers={"tracestate": value})
        assert server.requests == 0


async def test_dripping_head_does_not_move_the_limit_of_time(upstream: HttpUpstream) -> None:
    """Row 40"""
    async with raw(STREAM) as server:

        async def drip() -> None:
            while not server.left.is_set():
                server.say(b"X-A: b\r\n" if server.requests else b"")
                await asyncio.sleep(0.01)

        dripping = asyncio.create_task(drip())
        with pytest.raises(UpstreamError) as caught:
            await read(upstream, target(server.url), timeouts=AttemptTimeouts(1.0, 0.3, 5.0))
        assert caught.value.reason is Reason.UPSTREAM_TIMEOUT
        await dripping


@pytest.mark.parametrize("url", ["ftp://127.0.0.1", "http://", "http://127.0.0.1:99999", "x"])
async def test_url_that_is_none_is_unreachable(upstream: HttpUpstream, url: str) -> None:
    with pytest.raises(ReplicaUnreachable):
        await read(upstream, target(url))
