"""How long does one caller keep the event loop, with the worst that it may send?"""

from __future__ import annotations

import asyncio
import gc
import gzip
import json
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.core.clock import SystemClock
from tests.fakes.callback_times import callback_times
from tests.fakes.data_plane import POOL, House, chat, replica
from tests.fakes.scripts import tokens

MIB = 1024 * 1024
MOST_S, P99_S = 0.060, 0.020  # the goal is 0.100 at most; as reached, 0.015
CROWD = 300
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * (19 * MIB)}}
HEAD = b'{"model":"model","messages":[{"role":"user","content":"x"}],'


def said(content: object, **fields: object) -> bytes:
    messages = [{"role": "user", "content": content}]
    return json.dumps({"model": "model", "messages": messages, **fields}).encode()


def of_messages(count: int) -> bytes:
    messages = [{"role": "user", "content": "hello"}] * count
    return json.dumps({"model": "model", "messages": messages, "max_tokens": 8}).encode()


def of_keys(count: int) -> bytes:
    return HEAD + b'"metadata":{' + b",".join(b'"%d":0' % key for key in range(count)) + b"}}"


BODIES: dict[str, Callable[[], bytes]] = {  # made when they are needed
    "20 MiB of a picture": lambda: said([PICTURE], max_tokens=8),
    "20 MiB of text": lambda: said("word " * (4 * MIB - 100), max_tokens=8),
    "1.5 M tokens": lambda: said("word: " * 1_000_000, max_tokens=8),
    "100,000 messages": lambda: of_messages(100_000),
    "4,000 messages": lambda: of_messages(4_000),
    "1 M keys": lambda: of_keys(1_000_000),
    "depth 100,000": lambda: HEAD + b'"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "an integer of 1 MiB": lambda: HEAD + b'"x":' + b"1" * MIB + b"}",
    "1 MiB of escapes": lambda: HEAD + b'"x":"' + rb"\u00e9" * (MIB // 6) + b'"}',
}
REFUSED = {"100,000 messages", "1 M keys", "depth 100,000", "an integer of 1 MiB"}


@pytest.fixture
def frozen_heap() -> Iterator[None]:
    """As the server does: the collector does not walk what was there before."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


async def in_generous_house(directory: Path, scenario: Callable[[House], Awaitable[None]]) -> None:
    """Takes bodies of 20 MiB and prompts of 8 M tokens; in real time."""
    house = await House(SystemClock(), directory, replicas=(replica("r1", slots=2000),)).open()
    pool = replace(
        house.snapshot.pools[POOL], context_tokens=8_000_000, capabilities=frozenset({"vision"})
    )
    house.change(pools={POOL: pool}, most_body_bytes=20 * MIB)
    house.scripted.default = tokens(2, ttft_s=0.0, gap_s=0.0)
    try:
        await scenario(house)
    finally:
        await house.close()


def judged(what: str, times: list[float]) -> None:
    times.sort()
    p99_s, most_s = times[int(0.99 * (len(times) - 1))], times[-1]
    print(f"{what}: {len(times)} callbacks, p99 {p99_s * 1e3:.1f} ms, most {most_s * 1e3:.1f} ms")
    assert most_s <= MOST_S
    assert p99_s <= P99_S


@pytest.mark.alone
@pytest.mark.usefixtures("frozen_heap")
@pytest.mark.parametrize("name", BODIES)
async def test_the_largest_bodies_keep_nobody_waiting(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G21, row 18: the CPU of one callback of the loop, beside 20 small calls."""
    raw = BODIES[name]()

    async def scenario(house: House) -> None:
        with callback_times(monkeypatch) as times:
            small = [asyncio.create_task(house.call(chat(stream=True))) for _ in range(20)]
            answer = await house.call(raw)
            await asyncio.gather(*small)
        assert answer.status == (400 if name in REFUSED else 200)
        judged(name, times)

    await in_generous_house(tmp_path, scenario)


@pytest.mark.alone
async def test_an_encoded_body_is_refused_unread(tmp_path: Path) -> None:
    """G21, S33: 415, whatever is inside."""

    async def scenario(house: House) -> None:
        bomb = gzip.compress(b"a" * 10 * MIB)
        answer = await house.call(bomb, headers={"content-encoding": "gzip"})
        assert answer.status == 415
        assert answer.json()["error"]["code"] == "unsupported_encoding"

    await in_generous_house(tmp_path, scenario)


@pytest.mark.alone
@pytest.mark.usefixtures("frozen_heap")
async def test_a_crowd_that_leaves_at_once_keeps_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G21, row 18: mass disconnect; of 4,000 in benchmarks/idle_streams.py."""

    async def scenario(house: House) -> None:
        house.scripted.default = tokens(1000, ttft_s=0.0, gap_s=5.0)
        leave = asyncio.Event()
        crowd = [
            asyncio.create_task(house.call(chat(stream=True), leave=leave)) for _ in range(CROWD)
        ]
        while house.scripted.open_attempts < CROWD:
            await asyncio.sleep(0.01)
        with callback_times(monkeypatch) as times:
            leave.set()
            await asyncio.gather(*crowd)
        judged(f"{CROWD} callers leave", times)
        assert house.leftovers == {}

    await in_generous_house(tmp_path, scenario)
