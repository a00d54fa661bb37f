"""Callers that never read their streams are cut in time, at a bounded price, and nobody notices."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import time
from functools import partial

import pytest

from tests.e2e.clients import chat
from tests.e2e.conftest import STALL_S
from tests.e2e.installation import MODEL, Installation
from tests.e2e.load import percentile
from tests.e2e.open_loop import offered
from tests.e2e.operator import Operator
from tests.e2e.scripted import scripted, until
from tests.fakes.scripts import ROLE, Hang, Script, Send, Wait, chunk

pytestmark = [pytest.mark.alone, pytest.mark.asyncio(loop_scope="module")]

STUCK = 50
RECEIVE_BYTES = 8192
TOKEN = Send(chunk(content="word " * 800))
ENDLESS = Script((Send(ROLE), *(Wait(0.02), TOKEN) * 250, Hang()))
RATE, OVER_S = 30.0, 4.0  # of others a second, for as long as the stuck ones are borne
SLOWER_RATIO = 1.2
NOISE_S = float(os.environ.get("TEST_NOISE_S", "0.1"))
LOOK_S = 0.1
MOST_BYTES = 10_000_000
NEIGHBOUR = "bursty-bikes"


async def test_callers_that_read_nothing_are_cut_and_others_do_not_notice(
    estate: Installation, operator: Operator
) -> None:
    """Row 04: 50 sockets with a receive buffer of 8 KiB take no byte of their streams; another
    tenant calls meanwhile. A busy machine may slow one round of three, a gateway that waits for
    such a caller slows each."""
    rounds = []
    async with scripted(operator, slots=STUCK) as replica:
        replica.default = ENDLESS
        await _cut(estate)  # what the first ones cost once is no cost of a caller
        for _ in range(3):
            files_before = _files(estate)
            before_s = await _ttft_s(estate)
            (took_s, more_bytes), during_s = await asyncio.gather(_cut(estate), _ttft_s(estate))
            await until(partial(_has_files, estate, files_before + 2), 10)
            rounds.append(
                f"{STUCK} callers that read nothing were cut after {took_s:.1f} s,"
                f" {more_bytes / 1e6:+.1f} MB meanwhile; TTFT p99 of others"
                f" {before_s * 1000:.0f} ms before, {during_s * 1000:.0f} ms during"
            )
            print(rounds[-1])
            in_time = took_s <= STALL_S + 2.0 and during_s <= SLOWER_RATIO * before_s + NOISE_S
            if in_time and more_bytes <= MOST_BYTES:
                return
    raise AssertionError(rounds)


async def _ttft_s(place: Installation) -> float:
    """99th percentile, of another tenant at another pool."""
    key = place.key_of(NEIGHBOUR)
    run = await offered(place, MODEL, [(RATE, OVER_S)], tokens=5, key=key)
    assert {call.status for call in run.calls} == {200}
    return percentile([call.status_s for call in run.calls], 0.99)


async def _cut(place: Installation) -> tuple[float, int]:
    """Seconds until all are gone, and the most memory that they took meanwhile."""
    body = json.dumps(chat("scripted", max_tokens=4000, stream=True)).encode()
    head = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
    head += f"Content-Length: {len(body)}\r\nAuthorization: Bearer {place.api_key}\r\n"
    head += "Content-Type: application/json\r\n\r\n"
    until_gone = await asyncio.to_thread(_gone, place) + STUCK
    bytes_before = most_bytes = _resident_bytes(place)
    with contextlib.ExitStack() as crowd:
        for _ in range(STUCK):
            client = crowd.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
            client.connect(("127.0.0.1", place.port))
            client.sendall(head.encode() + body)
            await asyncio.sleep(0.01)
        began_s = time.monotonic()
        async with asyncio.timeout(60):
            while await asyncio.to_thread(_gone, place) < until_gone:
                most_bytes = max(most_bytes, _resident_bytes(place))
                await asyncio.sleep(LOOK_S)
    return time.monotonic() - began_s, most_bytes - bytes_before


def _has_files(place: Installation, most: int) -> bool:
    return _files(place) <= most


def _gone(place: Installation) -> float:
    return place.series("fairway_calls_total", pool="scripted", reason="client_gone")


def _files(place: Installation) -> int:
    assert place.serving is not None
    return len(os.listdir(f"/proc/{place.serving.pid}/fd"))


def _resident_bytes(place: Installation) -> int:
    assert place.serving is not None
    with open(f"/proc/{place.serving.pid}/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
