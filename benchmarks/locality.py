"""What does fairness cost in cache hits, and locality in fairness? Between the two ends.

    python -m benchmarks.locality [seeds]

Load: ``groups_saturated``: 64 tenants with a system prompt each of 2,048 tokens, 16 questions of
128, answers of 256, the first tenant sends 8 times as much; 4 replicas of which none can hold every
prompt (60,000 tokens of KV), 1.3 times what they can do with warm caches, so that every tenant is
always backlogged. (With 250,000 tokens of KV every replica holds every prompt, and all policies are
alike.)

Ends: *affinity only* sends whatever waits and is held by the free replica, oldest first, whoever's
it is; *strict* is the fair queue without any liberty. Between them the fair queue with its default
quantum and with fixed ones (service tokens). Simulated. Throughput: input and output tokens per
second; difference: the average of the OSDI'24 metric; largest: most service that a tenant received
above another.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any
from unittest.mock import patch

from gateway.core.queues.call import QueuedCall
from gateway.core.queues.fifo import FifoQueue
from gateway.core.queues.locality import Liberty, Locality
from gateway.core.queues.registry import QUEUES
from gateway.simulation.metrics.summary import Summary, summary
from gateway.simulation.policy import Policy
from gateway.simulation.scenario import simulate
from gateway.simulation.workloads.scenarios import SCENARIOS

SCENARIO = SCENARIOS["groups_saturated"]
SEEDS = (11, 12, 13, 14, 15)
QUANTA = (4_096, 16_384, 65_536, 131_072)
STRICT, AFFINITY_ONLY, DEFAULT = "strict", "affinity only", "default"
Row = list[str]


class HeldFirst(FifoQueue):
    """The oldest call whose prompt a free replica holds; if there is none, the oldest."""

    def __init__(self, weights: dict[str, float]) -> None:
        super().__init__(weights)
        self._calls: dict[str, QueuedCall] = {}

    def push(self, call: QueuedCall) -> None:
        super().push(call)
        self._calls[call.ticket.call_id] = call

    def discard(self, call: QueuedCall) -> None:
        super().discard(call)
        del self._calls[call.ticket.call_id]

    def nearer(self, head: QueuedCall, locality: Locality) -> tuple[QueuedCall, Liberty]:
        near = next(filter(locality.may_go, self._calls.values()), None)
        return (head, Liberty.NONE) if near is None else (near, Liberty.LOOK_AHEAD)


@dataclass(frozen=True, slots=True)
class Figures:
    throughput_tps: float
    hit_ratio: float
    difference_tps: float
    largest: float


def affinity_only(seed: int, seconds: float | None = None) -> Figures:
    with patch.dict(QUEUES, {"held_first": HeldFirst}):
        return _figures("held_first", seed, seconds, look_ahead_calls=1)


def strict(seed: int, seconds: float | None = None) -> Figures:
    return _figures("start_time_fair", seed, seconds, quantum_tokens=0, look_ahead_calls=0)


def fair(seed: int, seconds: float | None = None, **changes: float) -> Figures:
    """With the default quantum, or another."""
    return _figures("start_time_fair", seed, seconds, **changes)


def table(seeds: tuple[int, ...]) -> tuple[Row, list[Row]]:
    runs = {AFFINITY_ONLY: [affinity_only(seed) for seed in seeds]}
    runs[STRICT] = [strict(seed) for seed in seeds]
    runs[DEFAULT] = [fair(seed) for seed in seeds]
    for tokens in QUANTA:
        fixed: dict[str, float] = {"quantum_tokens": tokens, "quantum_s": 0.0}
        runs[f"quantum {tokens:,}"] = [fair(seed, **fixed) for seed in seeds]
    header = ["", "tok/s", "of affinity only", "hit", "avg diff", "of strict", "largest diff"]
    return header, [_row(name, runs) for name in runs]


def _row(name: str, runs: dict[str, list[Figures]]) -> Row:
    own = runs[name]
    throughput = _ratios(own, runs[AFFINITY_ONLY], "throughput_tps")
    difference = _ratios(own, runs[STRICT], "difference_tps")
    return [
        name,
        f"{fmean(one.throughput_tps for one in own):,.0f}",
        f"{fmean(throughput):.2f} (least {min(throughput):.2f})",
        f"{fmean(one.hit_ratio for one in own):.2f}",
        f"{fmean(one.difference_tps for one in own):,.0f}",
        f"{fmean(difference):.2f} (most {max(difference):.2f})",
        f"{fmean(one.largest for one in own):,.0f}",
    ]


def _ratios(own: list[Figures], others: list[Figures], figure: str) -> list[float]:
    pairs = zip(own, others, strict=True)
    return [getattr(one, figure) / getattr(other, figure) for one, other in pairs]


def _figures(queue: str, seed: int, seconds: float | None, **changes: Any) -> Figures:
    scenario = replace(SCENARIO, pool=replace(SCENARIO.pool, **changes))
    policy = Policy(queue, queue=queue, routing="bounded")
    one: Summary = summary(simulate(scenario, policy, seed, seconds=seconds), scenario)
    assert one.difference is not None
    assert one.accumulated is not None
    return Figures(one.throughput_tps, one.hit_ratio, one.difference.average, one.accumulated)


def lines(seeds: tuple[int, ...]) -> Iterator[str]:
    header, rows = table(seeds)
    for row in [header, *rows]:
        yield f"{row[0]:15} " + " ".join(f"{text:>18}" for text in row[1:])


def main() -> None:
    seeds = SEEDS[: int(sys.argv[1])] if len(sys.argv) > 1 else SEEDS
    for line in lines(seeds):
        print(line, flush=True)


if __name__ == "__main__":
    main()
