"""What the server makes of requests that parsers read differently."""

from __future__ import annotations

import asyncio
import json

import pytest

from config.asgi_types import Receive, Scope, Send
from tests.config.http_edge import Echo, edge, talk
from tests.config.raw_requests import PROBES, Probe

SENTINEL = b"GET /sentinel HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.name)
async def test_a_request_is_read_in_one_way_only(probe: Probe) -> None:
    """S23, M4. Where the connection goes on, the next request on it is read from its first byte."""
    echo = Echo()
    async with asyncio.timeout(20), edge(echo) as port, talk(port) as connection:
        connection.writer.write(probe.raw)
        statuses = [(await connection.answer())[0] for _ in probe.statuses]
        whole = list(echo.whole)
        if not probe.closed:
            connection.writer.write(SENTINEL)
            status, _, path = await connection.answer()
            assert (status, path) == (200, b"/sentinel")
        assert await connection.reader.read() == b""
    assert (tuple(statuses), len(whole)) == (probe.statuses, probe.whole)
    assert "/smuggled" not in echo.whole


def test_there_are_at_least_the_31_cases_that_were_measured() -> None:
    """S23"""
    assert len({probe.name for probe in PROBES}) == len(PROBES) >= 31


@pytest.mark.parametrize(
    ("path", "where"), [("/v1/messages", ("error", "details", "error_code")),
                        ("/v1/models", ("error", "code")), ("/", ("error", "code"))],
)  # fmt: skip
async def test_a_refusal_has_the_shape_of_the_api_and_ends_the_connection(
    path: str, where: tuple[str, ...]
) -> None:
    async with asyncio.timeout(20), edge(Echo()) as port, talk(port) as connection:
        connection.writer.write(b"GET %b HTTP/1.1\r\n\r\n" % path.encode())
        status, head, body = await connection.answer()
        told = json.loads(body)
        for name in where:
            told = told[name]
        assert (status, told) == (400, "invalid_request")
        for header in (b"connection: close", b"content-type: application/json", b"request-id: "):
            assert header in head
        assert await connection.reader.read() == b""


async def test_garbage_never_cuts_into_the_answer_before_it() -> None:
    """A status line inside a stream would be one more event, or the end of it."""

    async def streams(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-length", b"6")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"abc", "more_body": True})
        await asyncio.sleep(0)
        await send({"type": "http.response.body", "body": b"def"})

    async with asyncio.timeout(20), edge(streams) as port, talk(port) as connection:
        connection.writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" + b"nonsense\r\n\r\n" * 1000)
        _, _, body = await connection.answer()
        assert body + await connection.reader.read() == b"abcdef"
