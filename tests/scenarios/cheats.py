"""One tenant that cheats beside two that do not, through the whole data plane in virtual time.

``victim`` wants more than its share all the time, ``light`` sends one small call every half second,
far below its share. What ``attacker`` does is the argument. All have weight 1; the pool has two
simulated replicas of eight slots.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway.core.reasons import Outcome
from gateway.core.records import CallRecord
from gateway.simulation.engine import EngineConfig
from tests.fakes.data_plane import Answer, House, chat, replica, tenant
from tests.fakes.simulated_upstream import simulating
from tests.fakes.virtual_time import VirtualTime

SLOTS, SLUGS = 8, ("r1", "r2")
TENANTS = ("attacker", "victim", "light")
CLIENTS = 24
PROBES_S = 3.0

Cheat = Callable[[House, int], Awaitable[None]]  # one of its clients, for ever


@dataclass(frozen=True, slots=True)
class Seen:
    """Of one tenant, once the load stands. ``service_per_s``: of completed calls."""

    service_per_s: float
    refused: int
    completed: int
    ttft_p95_s: float


@dataclass(frozen=True, slots=True)
class Neighbours:
    time: VirtualTime
    folder: Path

    def of(
        self,
        cheat: Cheat,
        *,
        clients: int = CLIENTS,
        victims: int = CLIENTS,
        klass: str = "standard",
        warm_s: float = 3.0,
        seconds: float = 9.0,
    ) -> dict[str, Seen]:
        """What each tenant sees while ``clients`` of the attacker cheat, during ``seconds``."""

        def loops(house: House) -> list[Awaitable[None]]:
            return [
                *(cheat(house, number) for number in range(clients)),
                *(_backlogged(house, "victim", number, klass) for number in range(victims)),
                _light(house, klass),
            ]

        records = self.time.run(self._records(loops, warm_s, seconds))
        return {slug: _seen(records, slug, seconds) for slug in TENANTS}

    async def _records(
        self, loops: Callable[[House], list[Awaitable[None]]], warm_s: float, seconds: float
    ) -> list[CallRecord]:
        configs = dict.fromkeys(SLUGS, EngineConfig(sequences=SLOTS))
        async with simulating(configs, model="upstream-model") as upstream:
            house = House(
                self.time.clock,
                self.folder,
                transport=upstream,
                tenants=[tenant(slug) for slug in TENANTS],
                replicas=[replica(slug, kind="simulated", slots=SLOTS) for slug in SLUGS],
            )
            await house.open()
            await asyncio.sleep(PROBES_S)
            began_at = house.clock.wall()
            tasks = [asyncio.ensure_future(loop) for loop in loops(house)]
            await asyncio.sleep(warm_s + seconds)
            records = [one for one in house.records if _ended_at(one) > began_at + warm_s]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await house.close()
        return records


def small(rng: random.Random, words: int = 40, **fields: Any) -> dict[str, Any]:
    """A streamed call whose prompt nobody has sent before."""
    prompt = " ".join(f"{rng.getrandbits(32):08x}" for _ in range(words))
    return chat(prompt, **{"max_tokens": 32, "ignore_eos": True, "stream": True, **fields})


async def leaves(house: House, body: dict[str, Any], after_s: float) -> Answer:
    leave = asyncio.Event()
    asyncio.get_running_loop().call_later(after_s, leave.set)
    return await house.call(body, tenant="attacker", leave=leave)


def asks(headers: Mapping[str, str] | None = None, **fields: Any) -> Cheat:
    """Always backlogged; a refused call is followed by another one, soon."""

    async def client(house: House, number: int) -> None:
        rng = random.Random(1_000 + number)
        while True:
            body = small(rng, **fields)
            answer = await house.call(body, tenant="attacker", headers=headers)
            if answer.status != 200:
                await asyncio.sleep(0.2)

    return client


def floods(per_s: float, headers: Mapping[str, str]) -> Cheat:
    """Calls at random moments, whatever becomes of them; those refused return when told."""

    async def returns(house: House, body: dict[str, Any]) -> None:
        answer = await house.call(body, tenant="attacker", headers=headers)
        while answer.status != 200:
            await asyncio.sleep(1.05 * float(answer.headers.get("retry-after", 1.0)))
            answer = await house.call(body, tenant="attacker", headers=headers)

    async def client(house: House, number: int) -> None:
        rng = random.Random(1_000 + number)
        async with asyncio.TaskGroup() as calls:
            while True:
                calls.create_task(returns(house, small(rng)))
                await asyncio.sleep(rng.expovariate(per_s))

    return client


async def _backlogged(house: House, slug: str, number: int, klass: str) -> None:
    rng, headers = random.Random(number), {"x-fairway-priority": klass}
    while True:
        answer = await house.call(small(rng), tenant=slug, headers=headers)
        if answer.status != 200:
            await asyncio.sleep(float(answer.headers.get("retry-after", 1.0)))


async def _light(house: House, klass: str) -> None:
    rng, headers = random.Random(99), {"x-fairway-priority": klass}
    async with asyncio.TaskGroup() as calls:
        while True:
            calls.create_task(house.call(small(rng), tenant="light", headers=headers))
            await asyncio.sleep(0.5)


def _ended_at(record: CallRecord) -> float:
    return record.arrived_at + record.duration_s


def _seen(records: list[CallRecord], slug: str, seconds: float) -> Seen:
    own = [record for record in records if record.tenant == slug]
    done = [record for record in own if record.outcome is Outcome.COMPLETED]
    times = sorted(record.ttft_s for record in done if record.ttft_s is not None)
    return Seen(
        sum(record.service_cost for record in done) / seconds,
        sum(record.outcome in (Outcome.REJECTED, Outcome.EVICTED) for record in own),
        len(done),
        times[int(0.95 * (len(times) - 1))] if times else float("nan"),
    )
