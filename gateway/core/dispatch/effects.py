"""What goes into a dispatcher and what comes out of it: plain values only.

Plain values so that the scheduler can live in another process, and so that the simulator can run
the same object from its event heap.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gateway.core.priority import PriorityClass
from gateway.core.reasons import Reason


@dataclass(frozen=True, slots=True)
class Ticket:
    """What the scheduler knows of a call. Times are monotonic seconds."""

    call_id: str
    tenant: str
    key_id: str
    klass: PriorityClass
    arrived_s: float
    deadline_s: float
    input_tokens: int  # estimate
    output_tokens: int  # expected
    body_bytes: int
    eligible: frozenset[str] | None = None  # replica slugs; None = every replica of the pool
    excluded: frozenset[str] = frozenset()  # replicas that already failed this call
    again: bool = (
        False  # asks for a new grant: before the other calls of its flow, without a new lift
    )


@dataclass(frozen=True, slots=True)
class Usage:
    """What a call consumed so far or in all, in tokens."""

    input_tokens: int
    cached_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Grant:
    """One lease on one slot of one replica. ``rule`` names what decided, for the explanation."""

    call_id: str
    grant_id: int
    replica: str
    queued_s: float
    rule: str


@dataclass(frozen=True, slots=True)
class Refuse:
    """The call left the queue without a grant. ``retry_after_s`` None: waiting does not help."""

    call_id: str
    reason: Reason
    message: str
    retry_after_s: float | None


@dataclass(frozen=True, slots=True)
class Preempt:
    """The grant is taken back; the call asks again with ``again=True``."""

    call_id: str
    grant_id: int


Effect = Grant | Refuse | Preempt


@dataclass(frozen=True, slots=True)
class ReplicaConfig:
    slug: str
    slots: int
    context_tokens: int = 0  # 0 = unknown
    kv_tokens: int = 250_000


@dataclass(frozen=True, slots=True)
class PoolConfig:
    """Everything an operator can change at run time. Applying it loses no queued call."""

    replicas: tuple[ReplicaConfig, ...]
    weights: dict[str, float]  # tenant -> weight; absent = 1
    routing: str = "least_inflight"
    queue: str = "start_time_fair"
    queue_calls_per_tenant: int = 500
    queue_bytes_per_tenant: int = 64 * 1024 * 1024
    queue_calls_per_class: int = 5_000
    queue_bytes_per_class: int = 1024 * 1024 * 1024
    wait_limit_s: tuple[float, float, float] = (30.0, 60.0, 300.0)  # by class


@dataclass(frozen=True, slots=True)
class ReplicaHealth:
    """``admits``: may be given new calls. ``slot_cap``: slow start and half-open; None = its
    slots."""

    slug: str
    admits: bool
    slot_cap: int | None = None


@dataclass(frozen=True, slots=True)
class ReplicaTelemetry:
    """One scrape. None = the replica does not report it, which is not 0."""

    slug: str
    at_s: float
    running: int | None = None
    waiting: int | None = None
    kv_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class PoolView:
    """A picture for pages and metrics, taken once a second."""

    queued: dict[tuple[str, PriorityClass], int]  # (tenant, class)
    in_flight: dict[tuple[str, PriorityClass], int]
    replica_in_flight: dict[str, int]
    replica_slots: dict[str, int]  # as limited now
    oldest_arrival_s: float | None
    service: dict[str, float]  # tenant -> service cost dispatched and corrected, since start
    replica_unstarted: dict[str, int] = field(default_factory=dict)  # no upstream event yet
