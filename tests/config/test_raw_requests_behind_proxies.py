"""What a proxy passes on of such requests is read by both in the same way."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.config.http_edge import Echo, edge, talk
from tests.config.proxies import COMMANDS, proxy
from tests.config.raw_requests import PROBES, Probe

OWN = b"GET /of-somebody-else HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"


async def answered_paths(port: int, raw: bytes) -> list[str]:
    """Of the requests that the application answered, in order, as the sender learns it."""
    paths: list[str] = []
    async with talk(port) as client:
        client.writer.write(raw)
        try:
            while True:
                status, head, body = await client.answer()
                if status == 200 and b"x-path: " in head.lower():
                    paths.append(body.decode())
        except asyncio.IncompleteReadError as closed:
            return paths + [closed.partial.decode()] * closed.partial.startswith(b"/")  # HTTP/0.9
        except ConnectionError:
            return paths


@pytest.mark.parametrize("name", sorted(COMMANDS))
async def test_nothing_that_a_proxy_passes_on_desynchronises(name: str, tmp_path: Path) -> None:
    """S23. After each probe: its sender was told of exactly the requests that came to us, and the
    next caller on the proxy's connections gets the answer of its own request."""
    echo = Echo()
    async with asyncio.timeout(60), edge(echo) as upstream:
        with proxy(name, upstream, tmp_path) as port:
            for probe in PROBES:
                await _harmless(probe, echo, port)


async def _harmless(probe: Probe, echo: Echo, port: int) -> None:
    echo.whole.clear()
    told = await answered_paths(port, probe.raw)
    assert told == echo.whole, probe.name
    for _ in range(2):
        assert await answered_paths(port, OWN) == ["/of-somebody-else"], probe.name
