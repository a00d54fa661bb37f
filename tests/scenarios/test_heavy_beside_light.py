"""Forty calls of one tenant beside one of another at real llama.cpp servers: what does the one
wait?

Both tenants send their next call when the last has ended, heavy on 40 connections (200 tokens in,
64 out), light on one (900 in, 32 out). No two prompts are alike and every run has servers of its
own, so no cache helps anybody. Light runs alone, beside heavy, and beside heavy where the first to
come is the first served and nothing is shed.

Each replica reads one prompt at a time, so that calls of one size do not end together and slots
do not come back in bursts. That nobody overtakes light holds in any case; the bounds in seconds
hold in one round of three on a busy machine.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from unittest.mock import patch

import pytest

from gateway.core.clock import SystemClock
from gateway.core.dispatch.effects import Grant, PoolConfig
from gateway.pipeline import flows
from gateway.pipeline.flow import PoolFlow
from gateway.replicas.http_upstream import HttpUpstream
from tests.e2e.load import percentile
from tests.fakes.data_plane import POOL, House, chat, replica, tenant
from tests.fakes.llamacpp import serving
from tests.fakes.tinyllm import build

pytestmark = [pytest.mark.alone, pytest.mark.timeout(300)]

pytest.importorskip("xllamacpp")

SERVERS = int(os.environ.get("TEST_LIGHT_SERVERS", "2"))
SLOTS = 4  # of each
CONNECTIONS = 40
HEAVY, LIGHT = (200, 64), (900, 32)  # (tokens of the prompt, of the answer)
LIGHT_CALLS = int(os.environ.get("TEST_LIGHT_CALLS", "16"))
NAIVE_CALLS = int(os.environ.get("TEST_LIGHT_CALLS", "4"))  # each waits for 40 others
ROUNDS = 3
JITTER_S = 0.001  # between a decision and the note of it
WORDS = ("model", "token", "request", "response", "server", "queue", "cache", "prefix", "batch")


@dataclass(frozen=True, slots=True)
class Run:
    """Of light's calls; seconds. ``between_s``: mean time between two ends of calls meanwhile.
    ``overtaken``: calls of heavy that were given a slot while one of light's waited."""

    queue_s: list[float]
    ttft_s: list[float]
    between_s: float
    overtaken: int

    def __str__(self) -> str:
        ttft, wait = (
            f"{percentile(each, 0.5):.3f} / {percentile(each, 0.95):.3f} s"
            for each in (self.ttft_s, self.queue_s)
        )
        return (
            f"{len(self.ttft_s)} calls, TTFT p50 / p95 {ttft}, wait for a slot {wait}, overtaken "
            f"{self.overtaken} times; a slot is given back every {self.between_s:.3f} s"
        )


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("model"), "mid")


async def test_light_waits_for_the_next_free_slot_only(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(flows, "pool_config", first_come)
        naive = await light(model, tmp_path / "naive", NAIVE_CALLS, connections=CONNECTIONS)
    print(f"\nfirst come: {naive}")
    assert naive.overtaken > 0
    missed = []
    for turn in range(ROUNDS):
        alone = await light(model, tmp_path / f"alone{turn}", LIGHT_CALLS, connections=0)
        beside = await light(model, tmp_path / f"{turn}", LIGHT_CALLS, connections=CONNECTIONS)
        print(f"alone: {alone}\nbeside heavy: {beside}")
        assert beside.overtaken == 0
        if all(bounds(alone, beside, naive).values()):
            return
        missed.append(bounds(alone, beside, naive))
    raise AssertionError(missed)


def bounds(alone: Run, beside: Run, naive: Run) -> dict[str, bool]:
    ttft_s = percentile(beside.ttft_s, 0.95)
    return {
        "slot wait p95 <= 3 x mean time between ends": (
            percentile(beside.queue_s, 0.95) <= 3 * beside.between_s
        ),
        "TTFT p95 <= 3 x alone": ttft_s <= 3 * percentile(alone.ttft_s, 0.95),
        "TTFT p95 <= 1/3 of first come": ttft_s <= percentile(naive.ttft_s, 0.95) / 3,
    }


_pool_config = flows.pool_config


def first_come(*given: object) -> PoolConfig:
    return replace(_pool_config(*given), queue="fifo", shed_wait_ratio=0.0)  # type: ignore[arg-type]


async def light(model: Path, directory: Path, calls: int, *, connections: int) -> Run:
    """Light's calls, while heavy keeps so many connections busy."""
    with watched() as grants:
        async with gateway(model, directory) as house:
            ends = await _calls(house, calls, connections)
    mine = [record for record in house.records if record.tenant == "light"]
    return Run(
        [record.attempts[0].queue_s for record in mine],
        [record.ttft_s or 0.0 for record in mine],
        (ends[-1] - ends[0]) / (len(ends) - 1),
        overtaken(grants, {record.call_id for record in mine}),
    )


async def _calls(house: House, calls: int, connections: int) -> list[float]:
    """When calls ended while light called; moments on the monotonic clock."""
    ends: list[float] = []
    heavy = [
        asyncio.create_task(_busy(house, number, ends), name=f"heavy {number}")
        for number in range(connections)
    ]
    while len(ends) < connections:  # the queue has formed
        await asyncio.sleep(0.01)
    began = len(ends)
    for number in range(calls):
        await _call(house, "light", f"light {number}", LIGHT, ends)
    during = ends[began:]
    for task in heavy:
        task.cancel()
    await asyncio.gather(*heavy, return_exceptions=True)
    return during


@dataclass(frozen=True, slots=True)
class Granted:
    """Moments on the monotonic clock."""

    call_id: str
    queued_s: float
    granted_s: float


@contextmanager
def watched() -> Iterator[list[Granted]]:
    """Every grant from now on, in order."""
    grants: list[Granted] = []
    hand_over = PoolFlow._hand_over

    def note(flow: PoolFlow, grant: Grant, future: asyncio.Future[Grant]) -> None:
        now_s = flow._clock.monotonic()
        grants.append(Granted(grant.call_id, now_s - grant.queued_s, now_s))
        hand_over(flow, grant, future)

    with patch.object(PoolFlow, "_hand_over", note):
        yield grants


def overtaken(grants: list[Granted], late: set[str]) -> int:
    """Calls of others that were given a slot while one of these stood in the queue."""
    return sum(
        mine.queued_s + JITTER_S < other.granted_s
        for place, mine in enumerate(grants)
        if mine.call_id in late
        for other in grants[:place]
        if other.call_id not in late
    )


@asynccontextmanager
async def gateway(model: Path, directory: Path) -> AsyncIterator[House]:
    upstream = HttpUpstream(("127.0.0.0/8",))
    with ExitStack() as servers:
        urls = [
            servers.enter_context(serving(model, slots=SLOTS, context_tokens=2_560)).url
            for _ in range(SERVERS)
        ]
        house = House(
            SystemClock(),
            directory,
            transport=upstream,
            tenants=[tenant("heavy"), tenant("light")],
            replicas=[
                replica(f"llama-{number}", kind="llamacpp", base_url=url, slots=SLOTS)
                for number, url in enumerate(urls)
            ],
        )
        pool = replace(house.snapshot.pools[POOL], routing="bounded", context_tokens=2_560)
        await house.open()
        house.change(pools={POOL: pool})
        try:
            yield house
        finally:
            await house.close()
            await upstream.close()


async def _busy(house: House, connection: int, ends: list[float]) -> None:
    turn = 0
    while True:
        turn += 1
        await _call(house, "heavy", f"heavy {connection} {turn}", HEAVY, ends)


async def _call(
    house: House, slug: str, name: str, size: tuple[int, int], ends: list[float]
) -> None:
    rng = random.Random(name)
    prompt = " ".join(rng.choice(WORDS) for _ in range(size[0]))
    body = chat(prompt, max_tokens=size[1], stream=True)
    answer = await house.call(body, tenant=slug)
    assert answer.status == 200, answer.body
    ends.append(house.clock.monotonic())
