"""When no replica is left, callers hear it at once; when replicas are back, so is the service."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.fakes import scripts
from tests.fakes.data_plane import Answer, House, chat, replica

THREE = tuple(replica(f"r{n}", slots=4) for n in range(3))
PATHS = ("/health", "/metrics")
PER_S = 40


def kill(house: House) -> None:
    for each in THREE:
        house.scripted.always[each.slug] = scripts.refused()
        for path in PATHS:
            house.scripted.routes[each.slug, path] = scripts.refused()


def revive(house: House) -> None:
    house.scripted.always.clear()
    house.scripted.routes.clear()


async def steady(house: House, answers: list[tuple[float, float, Answer]]) -> None:
    """Until it is cancelled: when each call was sent, how long it took, and its answer."""

    async def one() -> None:
        sent_s = house.clock.monotonic()
        answer = await house.call(chat(stream=True))
        answers.append((sent_s, house.clock.monotonic() - sent_s, answer))

    async with asyncio.TaskGroup() as callers:
        while True:
            callers.create_task(one())
            await asyncio.sleep(1 / PER_S)


def test_a_pool_that_is_down_refuses_at_once_and_serves_all_within_ten_seconds(
    in_house: Any,
) -> None:
    """Row 50: at 40 calls a second, which is the pool's whole capacity."""

    async def scenario(house: House) -> None:
        answers: list[tuple[float, float, Answer]] = []
        house.scripted.default = scripts.tokens(4, ttft_s=0.1, gap_s=0.05)
        load = asyncio.create_task(steady(house, answers))
        await asyncio.sleep(2.0)
        kill(house)
        down_s, deepest = house.clock.monotonic(), 0
        for _ in range(60):
            await asyncio.sleep(0.1)
            deepest = max(deepest, sum(house.gateway.views()["pool"].queued.values()))
        revive(house)
        back_s = house.clock.monotonic()
        await asyncio.sleep(12.0)
        load.cancel()
        await asyncio.gather(load, return_exceptions=True)
        refused = [each for each in answers if down_s + 1.0 <= each[0] < back_s]
        slowest_s = max(took_s for _, took_s, _ in refused)
        lost_s = [
            sent_s - back_s for sent_s, _, answer in answers if sent_s >= back_s and not answer.done
        ]
        print(
            f"{len(refused)} refused, slowest after {slowest_s:.3f} s, at most {deepest} queued;"
            f" the last loss {max(lost_s):.1f} s after their return"
        )
        assert {answer.status for _, _, answer in refused} == {503}
        assert all("retry-after" in answer.headers for _, _, answer in refused)
        assert slowest_s <= 0.1
        assert deepest <= 2 * PER_S
        assert max(lost_s) <= 10.0
        assert house.leftovers == {}

    in_house(scenario, replicas=THREE)
