"""Replicas that come and go, or come back cold: how many calls does it cost, and how much time?

Open-loop arrivals over three or four scripted replicas, in virtual time.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from gateway.core.events import ReplicaState
from gateway.replicas.upstream import ReplicaTarget
from tests.e2e.load import percentile
from tests.fakes import scripts
from tests.fakes.data_plane import Answer, House, chat, replica
from tests.fakes.scripts import Script

RATE = 40.0  # calls/s
TTFT_S = 0.05
SLOTS = 16


async def offered(house: House, for_s: float, rate: float = RATE) -> list[Answer]:
    """Streams that arrive at random; returns when all have ended."""
    rng, calls = random.Random(3), list[asyncio.Task[Answer]]()
    end_s = house.clock.monotonic() + for_s
    while house.clock.monotonic() < end_s:
        calls.append(asyncio.create_task(house.call(chat(stream=True)), name="call"))
        await asyncio.sleep(rng.expovariate(rate))
    return list(await asyncio.gather(*calls))


def steady(target: ReplicaTarget, body: bytes) -> Script:
    return scripts.tokens(2, ttft_s=TTFT_S, gap_s=0.01)


@contextmanager
def gone(house: House, slug: str) -> Iterator[None]:
    """It refuses connections and probes."""
    house.scripted.always[slug] = house.scripted.routes[slug, "/health"] = scripts.refused()
    yield
    del house.scripted.always[slug], house.scripted.routes[slug, "/health"]


def at_most_in(window_s: float, times: list[float]) -> int:
    return max((sum(t <= at < t + window_s for at in times) for t in times), default=0)


def test_a_flapping_replica_costs_few_calls_and_changes_rarely(in_house: Any) -> None:
    """Row 51: one second there, one second gone, for 30 s."""

    async def flaps(house: House) -> None:
        for _ in range(15):
            await asyncio.sleep(1)
            with gone(house, "flapping"):
                await asyncio.sleep(1)

    async def scenario(house: House) -> None:
        house.scripted.default = steady
        flapping = asyncio.create_task(flaps(house), name="flapping")
        answers = await offered(house, 30, rate=20)
        await flapping
        failed = [answer for answer in answers if not answer.done]
        assert len(failed) <= 0.05 * len(answers)
        changes = [
            event
            for event in house.events
            if isinstance(event, ReplicaState) and event.replica == "flapping"
        ]
        away = [event.at for event in changes if event.state in ("down", "ejected")]
        back = [event.at for event in changes if event.state == "serving"]
        assert away
        assert at_most_in(10, [*away, *back]) <= 2, [(e.at, e.state) for e in changes]

    replicas = [replica(slug, slots=SLOTS) for slug in ("flapping", "one", "two")]
    in_house(scenario, replicas=replicas)


def test_a_replica_that_returns_cold_slows_few_calls(in_house: Any) -> None:
    """Row 52: its first 20 calls take ten times as long; over the minute after its return TTFT p99
    is at most twice that of the time before it went."""

    def cold_at_first() -> Callable[[ReplicaTarget, bytes], Script]:
        left = 20

        def answer(target: ReplicaTarget, body: bytes) -> Script:
            nonlocal left
            if target.slug != "cold" or not left:
                return steady(target, body)
            left -= 1
            return scripts.tokens(2, ttft_s=10 * TTFT_S, gap_s=0.01)

        return answer

    async def scenario(house: House) -> None:
        house.scripted.default = steady
        before = await ttft_p99(house, 10)
        with gone(house, "cold"):
            await offered(house, 10)
        house.scripted.default = cold_at_first()
        after = await ttft_p99(house, 60)
        served = [each for each in house.scripted.attempts[-1_000:] if each.slug == "cold"]
        assert len(served) > 100  # it takes part again
        assert after <= 2 * before

    async def ttft_p99(house: House, for_s: float) -> float:
        known = len(house.records)
        assert all(answer.done for answer in await offered(house, for_s))
        ttft_s = [record.ttft_s for record in house.records[known:] if record.ttft_s is not None]
        return percentile(ttft_s, 0.99)

    in_house(scenario, replicas=[replica(slug, slots=SLOTS) for slug in ("cold", "a", "b", "c")])
