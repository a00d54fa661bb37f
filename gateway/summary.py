"""What happened in this second, in one message small enough for every page?

`observe` collects events as they come, `tick` closes the second. Bounds of one second: TENANTS
rows (the busiest; the rest is one row ``*``), SAMPLES latencies per tenant (a uniform sample),
LISTED calls that did not complete. What a bound leaves out is counted. Pure: time and randomness
are passed in.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from gateway.core.dispatch.effects import PoolView, ReplicaTelemetry
from gateway.core.events import (
    CallEnded,
    ConfigApplied,
    Degraded,
    Event,
    PoolSecond,
    ReplicaSecond,
    Restored,
    SummarySecond,
    TenantSecond,
)
from gateway.core.priority import PriorityClass
from gateway.core.reasons import LOAD_REASONS, QUOTA_REASONS, Outcome, Reason
from gateway.core.records import CallRecord

TENANTS = 500
SAMPLES = 200
LISTED = 50
REST = "*"
_CALLERS_CHOICE = frozenset({Reason.CLIENT_GONE, Reason.CANCELLED})

QueuedTokens = Mapping[tuple[str, PriorityClass], int]  # (pool, class)


@dataclass(frozen=True, slots=True)
class ReplicaLive:
    """What the fleet knows of a replica now."""

    pool: str
    replica: str
    state: str
    telemetry: ReplicaTelemetry | None = None
    why: str = ""  # it is in this state


@dataclass(slots=True)
class _TenantCounts:
    calls: int = 0
    completed: int = 0
    shed: int = 0
    limited: int = 0
    failed: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    service_cost: float = 0.0
    queued: int = 0
    in_flight: int = 0
    judged: int = 0
    within_objective: int = 0
    entitled_slots: float = 0.0
    samples: int = 0
    ttft_s: list[float] = field(default_factory=list)
    reasons: Counter[Reason] = field(default_factory=Counter)

    def add(self, record: CallRecord) -> None:
        self.calls += 1
        self.completed += record.outcome is Outcome.COMPLETED
        self.shed += is_shed(record)
        self.limited += record.reason in QUOTA_REASONS
        self.failed += is_failure(record)
        self.prompt_tokens += record.prompt_tokens
        self.cached_tokens += record.cached_tokens
        self.completion_tokens += record.completion_tokens

    def judge(self, ttft_s: float, objective_s: float) -> None:
        self.judged += 1
        self.within_objective += ttft_s <= objective_s

    def sample(self, ttft_s: float, rng: random.Random) -> None:
        """Reservoir: each of the second's values is kept with the same probability."""
        self.samples += 1
        if len(self.ttft_s) < SAMPLES:
            self.ttft_s.append(ttft_s)
        elif (place := rng.randrange(self.samples)) < SAMPLES:
            self.ttft_s[place] = ttft_s

    def merge(self, other: _TenantCounts) -> None:
        for name in _SUMMED:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.reasons.update(other.reasons)
        self.samples += other.samples
        self.ttft_s = (self.ttft_s + other.ttft_s)[:SAMPLES]

    def close(self, tenant: str) -> TenantSecond:
        return TenantSecond(
            tenant=tenant,
            **{name: getattr(self, name) for name in _SUMMED},
            ttft_s=tuple(self.ttft_s),
            ttft_left_out=self.samples - len(self.ttft_s),
            reasons=dict(self.reasons),
        )


_SUMMED = (
    *("calls", "completed", "shed", "limited", "failed"),
    *("prompt_tokens", "cached_tokens", "completion_tokens", "service_cost"),
    *("queued", "in_flight", "judged", "within_objective", "entitled_slots"),
)


def no_objective(pool: str) -> float | None:
    return None


class SummaryBuilder:
    """``objective_s``: the TTFT objective of a pool, now."""

    def __init__(
        self, rng: random.Random, objective_s: Callable[[str], float | None] = no_objective
    ) -> None:
        self._rng = rng
        self._objective_s = objective_s
        self._tenants: defaultdict[str, _TenantCounts] = defaultdict(_TenantCounts)
        self._ended: list[CallRecord] = []
        self._left_out = 0
        self._degraded: dict[str, str] = {}
        self._config_version = 0
        self.latest: SummarySecond | None = None  # the last second, for readers of any thread
        self._service: dict[tuple[str, str], float] = {}  # (pool, tenant), as last seen

    def observe(self, event: Event) -> None:
        match event:
            case CallEnded(record=record):
                self._observe_call(record)
            case Degraded(part=part, why=why):
                self._degraded[part] = why
            case Restored(part=part):
                self._degraded.pop(part, None)
            case ConfigApplied(version=version):
                self._config_version = version
            case _:
                pass

    @property
    def degraded(self) -> Mapping[str, str]:
        """Parts that are degraded now, and why: for readiness."""
        return self._degraded

    def tick(
        self,
        at: float,
        now_s: float,
        pools: Mapping[str, PoolView],
        replicas: Iterable[ReplicaLive],
        queued_tokens: QueuedTokens,
    ) -> SummarySecond:
        """``at``: Unix epoch; ``now_s``: the monotonic clock of the pool views and telemetry."""
        self._service = {key: total for key, total in self._service.items() if key[0] in pools}
        for pool, view in pools.items():
            self._count_view(pool, view)
        summary = SummarySecond(
            at=at,
            config_version=self._config_version,
            tenants=self._close_tenants(),
            pools=tuple(
                self._pool_second(pool, view, now_s, queued_tokens) for pool, view in pools.items()
            ),
            replicas=tuple(
                _replica_second(one, pools[one.pool], now_s)
                for one in replicas
                if one.pool in pools
            ),
            ended=tuple(self._ended),
            ended_left_out=self._left_out,
            degraded=tuple(self._degraded),
        )
        self._tenants.clear()
        self._ended = []
        self._left_out = 0
        self.latest = summary
        return summary

    def _observe_call(self, record: CallRecord) -> None:
        counts = self._tenants[record.tenant]
        counts.add(record)
        if record.ttft_s is not None:
            counts.sample(record.ttft_s, self._rng)
            objective_s = self._objective_s(record.pool)
            if objective_s is not None:
                counts.judge(record.ttft_s, objective_s)
        if record.tenant and record.reason is not None and record.reason not in _CALLERS_CHOICE:
            counts.reasons[record.reason] += 1
            if len(self._ended) < LISTED:
                self._ended.append(record)
            else:
                self._left_out += 1

    def _count_view(self, pool: str, view: PoolView) -> None:
        for (tenant, _), calls in view.queued.items():
            self._tenants[tenant].queued += calls
        for (tenant, _), calls in view.in_flight.items():
            self._tenants[tenant].in_flight += calls
        for tenant, slots in view.fair_share.items():
            self._tenants[tenant].entitled_slots += slots
        for tenant, total in view.service.items():
            delivered = total - self._service.get((pool, tenant), 0.0)
            if delivered:
                self._tenants[tenant].service_cost += delivered
                self._service[pool, tenant] = total

    def _pool_second(
        self, pool: str, view: PoolView, now_s: float, queued_tokens: QueuedTokens
    ) -> PoolSecond:
        queued: dict[PriorityClass, int] = defaultdict(int)
        for (_, klass), calls in view.queued.items():
            queued[klass] += calls
        oldest = view.oldest_arrival_s
        return PoolSecond(
            pool=pool,
            queued=dict(queued),
            in_flight=sum(view.replica_in_flight.values()),
            slots=sum(view.replica_slots.values()),
            oldest_wait_s=None if oldest is None else max(0.0, now_s - oldest),
            queued_tokens={
                klass: tokens for (name, klass), tokens in queued_tokens.items() if name == pool
            },
            ttft_objective_s=self._objective_s(pool),
        )

    def _close_tenants(self) -> tuple[TenantSecond, ...]:
        busiest = sorted(
            self._tenants.items(),
            key=lambda item: item[1].calls + item[1].queued + item[1].in_flight,
            reverse=True,
        )
        rows = [counts.close(tenant) for tenant, counts in busiest[:TENANTS]]
        if len(busiest) > TENANTS:
            rest = _TenantCounts()
            for _, counts in busiest[TENANTS:]:
                rest.merge(counts)
            rows.append(rest.close(REST))
        return tuple(rows)


def is_shed(record: CallRecord) -> bool:
    """Refused or evicted because of load; leaving the queue by the caller's own wish is not."""
    evicted = record.outcome is Outcome.EVICTED and record.reason not in _CALLERS_CHOICE
    return evicted or record.reason in LOAD_REASONS


def is_failure(record: CallRecord) -> bool:
    """Ours or a replica's; a request that the replica rightly refused is the caller's."""
    failed = record.outcome is Outcome.FAILED and record.reason is not Reason.UPSTREAM_REFUSED
    return failed or (record.outcome is Outcome.REJECTED and record.status >= 500)


def _replica_second(one: ReplicaLive, view: PoolView, now_s: float) -> ReplicaSecond:
    telemetry = one.telemetry
    predicted, reported = view.cached_tokens.get(one.replica, (0, 0))
    return ReplicaSecond(
        pool=one.pool,
        replica=one.replica,
        state=one.state,
        in_flight=view.replica_in_flight.get(one.replica, 0),
        slots=view.replica_slots.get(one.replica, 0),
        telemetry_age_s=None if telemetry is None else max(0.0, now_s - telemetry.at_s),
        running=None if telemetry is None else telemetry.running,
        waiting=None if telemetry is None else telemetry.waiting,
        kv_ratio=None if telemetry is None else telemetry.kv_ratio,
        predicted_cached_tokens=predicted,
        reported_cached_tokens=reported,
        why=one.why,
        slow_ratio=view.slow.get(one.replica, 1.0),
    )
