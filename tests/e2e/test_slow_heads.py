"""Connections whose head never ends, or never begins, by the thousand: cut in time, and nobody else
notices."""

from __future__ import annotations

import asyncio
import os
import time

import pytest

from config.http_protocol import HEAD_TIMEOUT_S
from tests.e2e.installation import Installation

pytestmark = pytest.mark.alone

HEADS = int(os.environ.get("TEST_HALF_HEADS", "50"))
SUITE = "TEST_HALF_HEADS" not in os.environ
LATE_S = 1.5 if SUITE else 0.5
AT_ONCE = 100  # that connect
DRIP_S, ASK_S = 1.0, 0.02
GET = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n"


class Slow(asyncio.Protocol):
    """Sends half a head, and a byte whenever it is told to; a silent one sends nothing at all."""

    def __init__(self, silent: bool) -> None:
        self._silent = silent
        self._transport: asyncio.Transport | None = None
        self.said = b""
        self.gone = asyncio.Event()
        self.began_s = self.cut_s = 0.0

    async def connect(self, port: int) -> None:
        await asyncio.get_running_loop().create_connection(lambda: self, "127.0.0.1", port)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.began_s = time.monotonic()
        if not self._silent:
            transport.write(GET)

    def data_received(self, data: bytes) -> None:
        self.said += data

    def eof_received(self) -> None:
        self.cut_s = time.monotonic()

    def connection_lost(self, error: Exception | None) -> None:
        self.cut_s = self.cut_s or time.monotonic()
        self.gone.set()

    def drip(self) -> None:
        if self._transport is not None and not (self._silent or self.cut_s):
            self._transport.write(b"X")


async def asked(place: Installation) -> tuple[bytes, float]:
    """A healthy request: its status line and how many seconds it took."""
    began_s = time.monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", place.port)
    field = f"Authorization: Bearer {place.api_key}\r\nConnection: close\r\n\r\n"
    writer.write(GET + field.encode())
    answer = await reader.read()
    writer.close()
    return answer[:12], time.monotonic() - began_s


async def test_half_heads_are_cut_in_time_and_every_other_request_is_served(
    estate: Installation,
) -> None:
    """Row 06, M2: 50 of them in the suite, 2,000 at full size, a byte a second each, every fourth
    silent. Each is cut 5 s after it began."""
    slow = [Slow(silent=number % 4 == 3) for number in range(HEADS)]
    for first in range(0, HEADS, AT_ONCE):
        await asyncio.gather(*(one.connect(estate.port) for one in slow[first : first + AT_ONCE]))
    healthy = []
    drip_s = time.monotonic() + DRIP_S
    async with asyncio.timeout(60):
        while not all(one.gone.is_set() for one in slow):
            healthy.append(await asked(estate))
            if time.monotonic() >= drip_s:
                drip_s += DRIP_S
                for one in slow:
                    one.drip()
            await asyncio.sleep(ASK_S)
    took_s = sorted(one.cut_s - one.began_s for one in slow)
    times_s = sorted(each for _, each in healthy)
    print(
        f"{HEADS} half heads cut after {took_s[0]:.2f} to {took_s[-1]:.2f} s; {len(healthy)} other"
        f" requests, p99 {times_s[int(0.99 * len(times_s))] * 1000:.0f} ms, all served"
    )
    assert {status for status, _ in healthy} == {b"HTTP/1.1 200"}
    assert {one.said[:12] for one in slow} == {b"HTTP/1.1 408", b""}
    assert sum(not one.said for one in slow) == sum(1 for n in range(HEADS) if n % 4 == 3)
    assert took_s[0] >= HEAD_TIMEOUT_S - 0.5  # the server's time began earlier
    assert took_s[-1] <= HEAD_TIMEOUT_S + LATE_S
