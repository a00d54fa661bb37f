"""A gateway's summaries without a gateway: tenants of different habits on two pools, seeded.

``second(at)`` is what the gateway would publish for the second that ends at ``at``. A share
follows its tenant's weight, so that a changed weight is seen to move it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from gateway.core.events import (
    BatchSecond,
    PoolSecond,
    ReplicaSecond,
    SummarySecond,
    TenantSecond,
)
from gateway.core.priority import PriorityClass
from gateway.core.reasons import Outcome, Reason
from gateway.core.records import CallRecord

CAPACITY = 4_000.0  # service tokens per second of both pools


@dataclass(frozen=True)
class Habit:
    """``calls`` per second on average; ``hit`` part of prompt tokens found in a cache."""

    calls: float
    ttft_s: float
    hit: float
    klass: PriorityClass = PriorityClass.STANDARD
    shed: float = 0.0
    limited: float = 0.0
    failed: float = 0.0


HABITS = {
    "acme": Habit(6, 0.18, 0.78, PriorityClass.INTERACTIVE, limited=0.03),
    "rival": Habit(5, 0.29, 0.41, failed=0.004),
    "initech": Habit(3, 0.22, 0.66, PriorityClass.INTERACTIVE),
    "nightly-eval": Habit(9, 0.95, 0.12, PriorityClass.BATCH, shed=0.25),
}
WORDS = {
    Reason.SHED: "Saturation 0.93 is above the ceiling of batch, 0.70; retry after 12 s.",
    Reason.TOKENS_PER_MINUTE: "60,000 tokens per minute: 59,120 used, 2,140 needed, free in 7 s.",
    Reason.STREAM_STALLED: "No token for 30 s after 112 tokens.",
}


@dataclass
class LiveEvents:
    seed: int = 7
    habits: dict[str, Habit] = field(default_factory=lambda: dict(HABITS))
    weights: dict[str, float] = field(default_factory=dict)
    version: int = 1

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._calls = 0

    def second(self, at: float) -> SummarySecond:
        ended: list[CallRecord] = []
        total = sum(self.weights.get(slug, 1.0) for slug in self.habits)
        tenants = tuple(
            self._tenant(slug, habit, at, total, ended) for slug, habit in self.habits.items()
        )
        return SummarySecond(
            at=at,
            config_version=self.version,
            tenants=tenants,
            pools=self._pools(),
            replicas=self._replicas(),
            ended=tuple(ended),
            batches=(
                BatchSecond("batch_7f3a91c2", "nightly-eval", "in_progress", 200, 118, 2),
                BatchSecond("batch_0b55ee10", "acme", "in_progress", 40, 39, 0),
            ),
        )

    def history(self, now_at: float, seconds: int) -> list[SummarySecond]:
        return [self.second(now_at - back) for back in range(seconds, 0, -1)]

    def _tenant(
        self, slug: str, habit: Habit, at: float, total: float, ended: list[CallRecord]
    ) -> TenantSecond:
        calls = max(0, round(self._random.gauss(habit.calls, 1.5)))
        shed = self._some(calls, habit.shed)
        limited = self._some(calls, habit.limited)
        failed = self._some(calls, habit.failed)
        completed = calls - shed - limited - failed
        refused = (
            (shed, Reason.SHED, Outcome.EVICTED),
            (limited, Reason.TOKENS_PER_MINUTE, Outcome.REJECTED),
            (failed, Reason.STREAM_STALLED, Outcome.FAILED),
        )
        for number, reason, outcome in refused:
            ended += [self.record(slug, habit.klass, reason, outcome, at) for _ in range(number)]
        prompt = completed * 1_400
        share = self.weights.get(slug, 1.0) / total
        return TenantSecond(
            tenant=slug,
            calls=calls,
            completed=completed,
            shed=shed,
            limited=limited,
            failed=failed,
            prompt_tokens=prompt,
            cached_tokens=round(prompt * habit.hit * self._random.uniform(0.9, 1.1)),
            completion_tokens=completed * 96,
            reasons={reason: number for number, reason, _ in refused if number},
            service_cost=CAPACITY * share * self._random.uniform(0.85, 1.15),
            queued=3 * shed,
            in_flight=completed,
            ttft_s=tuple(
                self._random.lognormvariate(0, 0.35) * habit.ttft_s for _ in range(completed)
            ),
        )

    def record(
        self, slug: str, klass: PriorityClass, reason: Reason, outcome: Outcome, at: float
    ) -> CallRecord:
        self._calls += 1
        return CallRecord(
            call_id=f"019ab{self.seed:03d}-{self._calls:08x}",
            arrived_at=at - 1,
            tenant=slug,
            key_id="AbCd1234",
            endpoint="chat/completions",
            model="sim-llama-8b",
            pool="sim-llama-8b",
            klass=klass,
            stream=True,
            outcome=outcome,
            reason=reason,
            status=429,
            replica="gpu-b1" if outcome is Outcome.FAILED else "",
            retry_after_s=12.0 if reason is Reason.SHED else None,
            message=WORDS[reason],
        )

    def _some(self, calls: int, ratio: float) -> int:
        return sum(self._random.random() < ratio for _ in range(calls))

    def _pools(self) -> tuple[PoolSecond, ...]:
        waiting = {
            PriorityClass.INTERACTIVE: self._random.randint(0, 3),
            PriorityClass.STANDARD: self._random.randint(4, 12),
            PriorityClass.BATCH: self._random.randint(20, 40),
        }
        return (
            PoolSecond("sim-llama-8b", waiting, 92, 96, 1.4),
            PoolSecond("smollm2-135m", {}, 1, 8, None),
        )

    def _replicas(self) -> tuple[ReplicaSecond, ...]:
        pool, real = "sim-llama-8b", "smollm2-135m"
        return (
            ReplicaSecond(pool, "gpu-a1", "serving", 31, 32, 0.4, 31, 0, 0.83),
            ReplicaSecond(pool, "gpu-a2", "serving", 31, 32, 0.4, 31, 0, 0.80),
            ReplicaSecond(pool, "gpu-b1", "starting", 30, 32, 14.0, 30, 1, 0.79),
            ReplicaSecond(real, "cpu-1", "serving", 1, 4, None),
            ReplicaSecond(real, "cpu-2", "down", 0, 0, None, why="connection failed"),
        )
