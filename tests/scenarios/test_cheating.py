"""Does what a client says or does beside its prompts win it more than its share?

Each cheat runs beside a tenant that is always backlogged and one far below its share; both must be
served as beside an honest tenant.
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from tests.fakes.data_plane import House
from tests.fakes.virtual_time import VirtualTime, virtual_time
from tests.scenarios.cheats import Cheat, Neighbours, Seen, asks, floods, leaves, small

__all__ = ["virtual_time"]


async def many_users(house: House, number: int) -> None:
    rng = random.Random(1_000 + number)
    while True:
        await house.call(small(rng, user=str(rng.random())), tenant="attacker")


def gives_up(after_s: float, words: int) -> Cheat:
    """Long prompts, left before or in their first tokens."""

    async def client(house: House, number: int) -> None:
        rng = random.Random(1_000 + number)
        while True:
            await leaves(house, small(rng, words), after_s)
            await asyncio.sleep(0.05)

    return client


async def same_prompt(house: House, number: int) -> None:
    """Warm everywhere, so that every free replica holds it."""
    while True:
        await house.call(small(random.Random(1), words=400), tenant="attacker")


CHEATS: dict[str, Cheat] = {
    "retry_count": asks({"x-stainless-retry-count": "999"}),  # seem to have been refused before
    "many_users": many_users,  # a share for each name
    "ordered": asks({"x-fairway-ordered": "true"}),  # nobody may pass
    "objective": asks({"x-slo-ttft-ms": "1"}),  # be in a hurry
    "deadline": asks({"x-fairway-deadline-ms": "400"}),
    "own_priority": asks(priority=-100, cache_salt="of somebody else"),  # steer the engine
    "leaves_queue": gives_up(0.1, words=40),  # wait anew, as one that has just come
    "leaves_prefill": gives_up(0.1, words=1_500),  # prefill for nothing
    "leaves_stream": gives_up(2.0, words=400),  # tokens without their usage event
    "warm_prompt": same_prompt,  # always near, always first
}


@pytest.fixture
def neighbours(virtual_time: VirtualTime, tmp_path: Path) -> Neighbours:
    return Neighbours(virtual_time, tmp_path)


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Seen]:
    time = VirtualTime()
    try:
        return Neighbours(time, tmp_path_factory.mktemp("honest")).of(asks())
    finally:
        time.loop.close()


@pytest.mark.parametrize("cheat", CHEATS)
def test_cheat_takes_nothing_from_its_neighbours(
    neighbours: Neighbours, honest: dict[str, Seen], cheat: str
) -> None:
    seen = neighbours.of(CHEATS[cheat])
    assert seen["victim"].service_per_s >= 0.93 * honest["victim"].service_per_s
    assert seen["light"].service_per_s >= 0.9 * honest["light"].service_per_s
    assert seen["victim"].refused == seen["light"].refused == 0
    assert seen["light"].ttft_p95_s <= 1.25 * honest["light"].ttft_p95_s


def test_long_answers_are_paid_for(neighbours: Neighbours, honest: dict[str, Seen]) -> None:
    """Twice what is expected of them: an estimate that is too low would be slots for nothing."""
    seen = neighbours.of(asks(max_tokens=500), warm_s=15.0, seconds=25.0)
    assert seen["victim"].service_per_s >= 0.93 * honest["victim"].service_per_s
    assert seen["light"].refused == 0


def test_long_batch_calls_collect_no_slots_beside_interactive_ones(neighbours: Neighbours) -> None:
    """Batch is owed a twentieth of the service while it waits; of the dispatches it would be most
    of the slots after a minute, since its calls live twenty times as long."""
    long_batch = asks({"x-fairway-priority": "batch"}, max_tokens=1_000)
    seen = neighbours.of(long_batch, klass="interactive", warm_s=15.0, seconds=20.0)
    served = sum(one.service_per_s for one in seen.values())
    assert seen["victim"].refused == seen["light"].refused == 0
    assert 0 < seen["attacker"].service_per_s <= 0.1 * served
    assert seen["light"].ttft_p95_s <= 0.6


@pytest.mark.parametrize("hurry", [None, "1"], ids=["when_told", "never_in_time"])
def test_bookings_of_one_tenant_refuse_nobody_else(
    neighbours: Neighbours, hurry: str | None
) -> None:
    """Twice the capacity in distinct prompts, each of which returns when it was told. All capacity
    would be promised to the attacker, and every newcomer of others refused."""
    headers = {"x-fairway-priority": "interactive"} | ({"x-slo-ttft-ms": hurry} if hurry else {})
    flood = floods(10.0, headers)
    seen = neighbours.of(flood, clients=10, victims=4, klass="interactive", seconds=17.0)
    assert seen["attacker"].refused > 500
    assert seen["victim"].refused == seen["light"].refused == 0
    assert seen["light"].ttft_p95_s <= 0.6
