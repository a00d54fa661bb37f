"""Everything that a live page shows of one moment, as plain values.

``FleetFacts`` is for operators. ``own_facts`` keeps what one tenant may see: itself, and of the
pools only what its own calls meet. Absent is None and shown as words, never as 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dashboard.live.incidents import Incident
from gateway.core.events import BatchSecond, PoolSecond, ReplicaSecond
from gateway.core.priority import PriorityClass
from gateway.core.reasons import Reason

SMALL_SAMPLE = 100


@dataclass(frozen=True, slots=True)
class Latency:
    p50_s: float | None
    p99_s: float | None
    sample: int

    @property
    def is_small(self) -> bool:
        return self.sample < SMALL_SAMPLE


@dataclass(frozen=True, slots=True)
class Policy:
    """What an operator set for a tenant. ``position`` is stable and gives the tenant its colour."""

    slug: str
    name: str
    weight: float
    highest_class: PriorityClass
    suspended: bool
    position: int


@dataclass(frozen=True, slots=True)
class Tenancy:
    """All tenants as of one version of the configuration."""

    version: int
    policies: dict[str, Policy]

    def name(self, slug: str) -> str:
        policy = self.policies.get(slug)
        return policy.name if policy else slug


@dataclass(frozen=True, slots=True)
class Series:
    """One tenant over time, one value per slice; None where it had no call."""

    slug: str
    name: str
    position: int
    at: tuple[float, ...]
    ttft_p50_s: tuple[float | None, ...]
    share: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class TenantRow:
    """Counts cover ``recent_s``; ``share`` the last NOW_S seconds, ``steady_share`` the last
    SHARE_S. ``attained_ratio``: of the calls with a first token in a pool that has an objective."""

    policy: Policy
    ttft: Latency
    hit_ratio: float | None
    share: float | None  # of all service cost delivered
    steady_share: float | None
    fair_share: float | None  # weighted max-min among the tenants that ask for service now
    attained_ratio: float | None
    calls: int
    completed: int
    shed: int
    limited: int
    failed: int
    completion_tokens: int
    prompt_tokens: int
    cached_tokens: int
    reasons: tuple[tuple[Reason, int], ...]
    queued: int
    in_flight: int

    @property
    def refused(self) -> int:
        return self.shed + self.limited

    @property
    def refused_ratio(self) -> float | None:
        return self.refused / self.calls if self.calls else None


@dataclass(frozen=True, slots=True)
class PoolRow:
    pool: PoolSecond
    replicas: tuple[ReplicaSecond, ...]

    @property
    def queued(self) -> int:
        return sum(self.pool.queued.values())

    @property
    def fullness(self) -> float | None:
        return self.pool.in_flight / self.pool.slots if self.pool.slots else None


@dataclass(frozen=True, slots=True)
class Objective:
    """A TTFT objective and the pools that have it; no pool: the installation's own."""

    ttft_s: float
    pools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FleetFacts:
    """``at`` None: no summary has arrived. ``owner``: the tenant that the facts are cut down to."""

    at: float | None
    config_version: int
    tenancy_version: int
    recent_s: int
    objectives: tuple[Objective, ...]
    tenants: tuple[TenantRow, ...]
    total: TenantRow | None
    pools: tuple[PoolRow, ...]
    incidents: tuple[Incident, ...]
    left_out: int
    series: tuple[Series, ...]
    degraded: tuple[str, ...]
    batches: tuple[BatchSecond, ...]
    owner: str | None = None

    @property
    def own(self) -> TenantRow | None:
        return next((row for row in self.tenants if row.policy.slug == self.owner), None)


def own_facts(fleet: FleetFacts, slug: str) -> FleetFacts:
    """Nothing of another tenant, of replicas or of totals remains."""
    return replace(
        fleet,
        owner=slug,
        tenants=tuple(row for row in fleet.tenants if row.policy.slug == slug),
        total=None,
        pools=(),
        incidents=tuple(
            replace(incident, replica="") for incident in fleet.incidents if incident.tenant == slug
        ),
        left_out=0,
        series=tuple(one for one in fleet.series if one.slug == slug),
        degraded=(),
        objectives=tuple(replace(one, pools=()) for one in fleet.objectives),
        batches=tuple(batch for batch in fleet.batches if batch.tenant == slug),
    )
