"""What the gateway tells its sinks (journal, metrics, log, live page). Published without waiting.

``CallEnded`` carries the ledger record; the rest says what changed and why.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gateway.core.priority import PriorityClass
from gateway.core.reasons import Reason
from gateway.core.records import AttemptRecord, CallRecord


@dataclass(frozen=True, slots=True)
class CallEnded:
    record: CallRecord


@dataclass(frozen=True, slots=True)
class AttemptEnded:
    call_id: str
    tenant: str
    pool: str
    attempt: AttemptRecord


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """``state``: serving, starting, half_open, down, ejected, draining, disabled."""

    at: float  # Unix epoch
    pool: str
    replica: str
    state: str
    why: str


@dataclass(frozen=True, slots=True)
class ConfigApplied:
    at: float
    version: int


@dataclass(frozen=True, slots=True)
class Degraded:
    at: float
    part: str  # quota_store, ledger, database, telemetry:<replica>
    why: str


@dataclass(frozen=True, slots=True)
class Restored:
    at: float
    part: str


@dataclass(frozen=True, slots=True)
class TenantSecond:
    """One tenant's second. ``tenant`` is empty for callers that were not identified, ``*`` for
    all tenants beyond the bound of one second. ``ttft_s``: TTFT in seconds of calls that had a
    token and ended in this second, a random sample where there were more. ``judged``: calls with a
    token in a pool that has a TTFT objective."""

    tenant: str
    calls: int = 0
    completed: int = 0
    shed: int = 0  # evicted and load refusals
    limited: int = 0  # the tenant's own quota
    failed: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    service_cost: float = 0.0  # delivered in this second; negative where a correction gave back
    queued: int = 0
    in_flight: int = 0
    ttft_s: tuple[float, ...] = ()
    ttft_left_out: int = 0
    reasons: dict[Reason, int] = field(default_factory=dict)  # of shed, limited and failed calls
    judged: int = 0
    within_objective: int = 0
    entitled_slots: float = 0.0  # weighted max-min over all pools, while it asks for service


@dataclass(frozen=True, slots=True)
class ReplicaSecond:
    pool: str
    replica: str
    state: str
    in_flight: int
    slots: int
    telemetry_age_s: float | None = None  # None: no telemetry
    running: int | None = None
    waiting: int | None = None
    kv_ratio: float | None = None
    predicted_cached_tokens: int = 0  # in all, of the calls that ended here
    reported_cached_tokens: int = 0
    why: str = ""  # it is in this state
    slow_ratio: float = 1.0  # how many times longer than its peers it takes to first tokens


@dataclass(frozen=True, slots=True)
class PoolSecond:
    pool: str
    queued: dict[PriorityClass, int]
    in_flight: int
    slots: int
    oldest_wait_s: float | None
    queued_tokens: dict[PriorityClass, int] = field(default_factory=dict)  # estimated prompts
    ttft_objective_s: float | None = None  # None: the pool has none


@dataclass(frozen=True, slots=True)
class BatchSecond:
    """Progress of one batch that is not finished, or finished in this second."""

    batch_id: str
    tenant: str
    status: str
    total: int
    completed: int
    failed: int


@dataclass(frozen=True, slots=True)
class SummarySecond:
    """``summary_1s``: everything a live page shows of one second, in one message."""

    at: float
    config_version: int
    tenants: tuple[TenantSecond, ...]
    pools: tuple[PoolSecond, ...]
    replicas: tuple[ReplicaSecond, ...]
    ended: tuple[CallRecord, ...] = field(
        default=()
    )  # sheds, errors and refusals of this second, at most 50
    ended_left_out: int = 0
    degraded: tuple[str, ...] = ()
    batches: tuple[BatchSecond, ...] = ()


Event = (
    CallEnded | AttemptEnded | ReplicaState | ConfigApplied | Degraded | Restored | SummarySecond
)
