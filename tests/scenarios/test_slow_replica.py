"""One of three replicas becomes three times as slow, without an error: does the load leave it?

Virtual time, the whole data plane over simulated engines (an operator-profile model, not a GPU):
40 calls a second for three replicas of 32 slots. From one moment on, prefill and decode steps of
one of them take three times as long. Calls stay there three times as long, so by calls in flight it
gets one of seven instead of one of three: 57 % less, somewhat more where few calls run, since ties
are broken at random.

First tokens of the calls that it still gets come three times as late, and these are then more than
one in twenty: the 95th percentile of all calls is theirs. The default policy, which compares the
replicas' times, leaves it fewer, so that the percentile stays; others cannot.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from gateway.core.records import CallRecord
from gateway.simulation.engine import Engine, EngineConfig
from tests.e2e.load import percentile
from tests.fakes.data_plane import POOL, House, chat, replica
from tests.fakes.simulated_upstream import simulating
from tests.fakes.virtual_time import VirtualTime, virtual_time

__all__ = ["virtual_time"]

SLOW = "r1"
REPLICAS = (SLOW, "r2", "r3")
TIMES = 3.0
TPOT_OBJECTIVE_S = 0.020  # 15 ms when it is well
ENGINE = EngineConfig(sequences=32)
CALLS_PER_S, PROMPT_WORDS, TOKENS = 40.0, 50, 50
WARM_S, MEASURED_S, MOVES_S = 5.0, float(os.environ.get("TEST_SLOW_REPLICA_S", "10")), 10.0
SLOW_AT_S = WARM_S + MEASURED_S
END_S = SLOW_AT_S + MOVES_S + MEASURED_S
RETURNS_S = 30.0
FULL = "TEST_SLOW_REPLICA_S" in os.environ
SEEDS = [1, 2, 3] if FULL else [1, 3]
BY_LOAD = ["least_inflight", "least_cost"] if FULL else ["least_inflight"]

Drive = Callable[..., "Moved"]


@dataclass(frozen=True, slots=True)
class Moved:
    """Before, and from ``MOVES_S`` after the change on."""

    share: tuple[float, float]  # of the slow replica in the calls
    ttft_s: tuple[float, float]  # 95th percentile of all calls
    others_s: tuple[float, float]  # and of those at the other replicas
    slots: int  # that the slow replica may use in the end
    returned: float | None = None  # its share ``RETURNS_S`` after it is fast again

    @property
    def fell(self) -> float:
        return 1 - self.share[1] / self.share[0]

    @property
    def ttft_ratio(self) -> float:
        return self.ttft_s[1] / self.ttft_s[0]


@pytest.fixture
def drive(virtual_time: VirtualTime, tmp_path: Path) -> Drive:
    async def scenario(
        routing: str, tpot_objective_s: float | None, seed: int, *, recovers: bool
    ) -> Moved:
        async with simulating(dict.fromkeys(REPLICAS, ENGINE), model="upstream-model") as upstream:
            replicas = [replica(slug, slots=ENGINE.sequences) for slug in REPLICAS]
            house = House(virtual_time.clock, tmp_path, transport=upstream, replicas=replicas)
            pool = replace(
                house.snapshot.pools[POOL], routing=routing, tpot_objective_s=tpot_objective_s
            )
            await house.open()
            house.change(pools={POOL: pool})
            await asyncio.sleep(3.0)  # probes find the replicas
            began_at = house.clock.wall()
            await _load(house, upstream.engines[SLOW], seed, recovers=recovers)
            slots = house.gateway.views()[POOL].replica_slots[SLOW]
            await house.close()
        return _moved(house.records, began_at, slots)

    def run(
        routing: str,
        tpot_objective_s: float | None = None,
        *,
        seed: int = 1,
        recovers: bool = False,
    ) -> Moved:
        moved = virtual_time.run(scenario(routing, tpot_objective_s, seed, recovers=recovers))
        print(
            f"\n{routing}: share of the slow replica {moved.share[0]:.1%} -> {moved.share[1]:.1%} "
            f"(-{moved.fell:.0%}), TTFT p95 {moved.ttft_s[0] * 1e3:.0f} -> "
            f"{moved.ttft_s[1] * 1e3:.0f} ms (x{moved.ttft_ratio:.2f}), at the others "
            f"{moved.others_s[0] * 1e3:.0f} -> {moved.others_s[1] * 1e3:.0f} ms; "
            f"slots of the slow one in the end: {moved.slots}"
            + ("" if moved.returned is None else f"; share when fast again {moved.returned:.1%}")
        )
        return moved

    return run


@pytest.mark.parametrize("seed", SEEDS)
def test_a_slow_replica_makes_no_difference_to_first_tokens_after_ten_seconds(
    drive: Drive, seed: int
) -> None:
    """Row 49."""
    moved = drive("bounded", seed=seed)
    assert moved.fell >= 0.5
    assert moved.share[1] < 0.04
    assert moved.ttft_ratio <= 1.3


def test_a_replica_that_is_fast_again_has_its_share_back_within_thirty_seconds(
    drive: Drive,
) -> None:
    moved = drive("bounded", recovers=True)
    assert moved.returned is not None
    assert moved.returned >= 0.9 * moved.share[0]


@pytest.mark.parametrize("routing", BY_LOAD)
def test_by_load_alone_half_of_its_share_leaves_and_first_tokens_come_late(
    drive: Drive, routing: str
) -> None:
    """The baseline; the calls that go elsewhere are no slower than before."""
    moved = drive(routing)
    assert moved.fell >= 0.5
    assert moved.others_s[1] <= 1.3 * moved.others_s[0]
    assert moved.ttft_ratio > 2.0


def test_with_an_objective_for_tokens_its_slots_shrink_and_more_leaves(drive: Drive) -> None:
    """Row 49."""
    moved = drive("bounded", TPOT_OBJECTIVE_S)
    assert moved.slots <= ENGINE.sequences // 2
    assert moved.fell >= 0.6


def test_in_turn_a_slow_replica_keeps_most_of_its_share(drive: Drive) -> None:
    """The baseline: only full slots turn calls away."""
    assert drive("round_robin").fell <= 0.3


async def _load(house: House, slow: Engine, seed: int, *, recovers: bool) -> None:
    rng, loop = random.Random(seed), asyncio.get_running_loop()
    began_s, well = loop.time(), slow.config
    loop.call_later(SLOW_AT_S, _slow_down, slow)
    loop.call_later(END_S, setattr, slow, "config", well)
    end_s = END_S + (RETURNS_S + MEASURED_S if recovers else 0.0)
    async with asyncio.TaskGroup() as calls:
        while loop.time() < began_s + end_s:
            prompt = " ".join(f"{rng.getrandbits(32):08x}" for _ in range(PROMPT_WORDS))
            calls.create_task(house.call(chat(prompt, max_tokens=TOKENS, stream=True)))
            await asyncio.sleep(rng.expovariate(CALLS_PER_S))


def _slow_down(engine: Engine) -> None:
    times = engine.config.step_time
    slower = replace(
        times,
        floor_s=TIMES * times.floor_s,
        base_s=TIMES * times.base_s,
        per_token_s=TIMES * times.per_token_s,
        overhead_s=TIMES * times.overhead_s,
        per_kv_token_s=TIMES * times.per_kv_token_s,
        per_pair_s=TIMES * times.per_pair_s,
    )
    engine.config = replace(engine.config, step_time=slower)


def _moved(records: list[CallRecord], began_at: float, slots: int) -> Moved:
    def between(from_s: float, to_s: float) -> list[CallRecord]:
        return [one for one in records if from_s <= one.arrived_at - began_at < to_s]

    before, after = between(WARM_S, SLOW_AT_S), between(SLOW_AT_S + MOVES_S, END_S)
    returned = between(END_S + RETURNS_S, END_S + RETURNS_S + MEASURED_S)
    return Moved(
        (_share(before), _share(after)),
        (_p95_s(before), _p95_s(after)),
        (_p95_s(_at_others(before)), _p95_s(_at_others(after))),
        slots,
        _share(returned) if returned else None,
    )


def _at_others(records: list[CallRecord]) -> list[CallRecord]:
    return [one for one in records if one.replica != SLOW]


def _share(records: list[CallRecord]) -> float:
    return 1 - len(_at_others(records)) / len(records)


def _p95_s(records: list[CallRecord]) -> float:
    """Of the TTFT. Every call is answered in this scenario."""
    assert all(one.ttft_s is not None for one in records)
    return percentile([one.ttft_s or 0.0 for one in records], 0.95)
