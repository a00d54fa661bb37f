"""What goes into a dispatcher and what comes out of it: plain values only.

Plain values so that the scheduler can live in another process, and so that the simulator can run
the same object from its event heap.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum, auto

import msgspec

from gateway.core.caches.prefix_chain import NO_PREFIX, PrefixChain
from gateway.core.priority import PriorityClass
from gateway.core.reasons import Reason
from gateway.core.routing.decision import Decision


class Ticket(msgspec.Struct, frozen=True):
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
    prefix: PrefixChain = NO_PREFIX
    ordered: bool = False  # the caller asks for its calls in their order
    end_user: str = ""  # whom the caller serves; "" = it does not say
    preemptions: int = 0  # grants of this call that were taken back
    conversation: int = 0  # the same for every turn of one conversation; 0 = unknown
    prompt_hash: int = 0  # the same for a call and its return after a refusal; 0 = unknown
    retry_count: int = 0  # the client's own
    ttft_objective_s: float | None = None  # the caller's own; None = that of the pool


@dataclass(frozen=True, slots=True)
class Usage:
    """What a call consumed so far or in all, in tokens."""

    input_tokens: int
    cached_tokens: int
    output_tokens: int


class Grant(msgspec.Struct, frozen=True):
    """One lease on one slot of one replica. ``rule`` names what decided, for the explanation."""

    call_id: str
    grant_id: int
    replica: str
    queued_s: float
    rule: str
    decision: Decision | None = None

    @property
    def predicted_cached_tokens(self) -> int:
        """Of the prompt, on this replica."""
        return self.decision.predicted_cached_tokens if self.decision else 0


class Failure(Enum):
    """Why an attempt ended without content, as far as its replica is the cause."""

    FULL = auto()  # its own 429 or 503
    ERROR = auto()  # another 5xx, or a timeout


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
    one_prefix_per_slot: bool = False  # llama.cpp; others share blocks among running calls


@dataclass(frozen=True, slots=True)
class PoolConfig:
    """Everything an operator can change at run time. Applying it loses no queued call. Tuples hold
    one value per class."""

    replicas: tuple[ReplicaConfig, ...]
    weights: dict[str, float]  # tenant -> weight; absent = 1
    routing: str = "least_inflight"
    queue: str = "start_time_fair"
    # How much may wait, and how long
    queue_calls_per_tenant: int = 500
    queue_bytes_per_tenant: int = 64 * 1024 * 1024
    queue_calls_per_class: int = 5_000
    queue_bytes_per_class: int = 1024 * 1024 * 1024
    wait_limit_s: tuple[float, float, float] = (30.0, 60.0, 300.0)
    # When a replica is given another call: see start_rule
    unstarted_calls: int = 3
    step_budget_tokens: int = 2_048
    slot_step_tokens: int = 128
    kv_in_flight_ratio: float = 1.3
    brake_waiting_calls: int = 4
    # Which class goes next: see class_order, holdback
    batch_every: int = 20  # 0 = never
    aged_every: int = 10  # 0 = never
    aged_after_s: tuple[float, float, float] = (math.inf, 30.0, 120.0)
    holdback_s: float = 3.0
    holdback_ratio: tuple[float, float, float] = (1.0, 0.9, 0.7)
    # Taking back batch calls in flight: see preemption
    preempt_after_s: float = 0.5
    preemptions_per_call: int = 2  # 0 = never
    preempt_waste_ratio: float = 0.03
    # Refusing because of load: see shedding, bookings
    ttft_objective_s: tuple[float, float, float] = (2.0, 10.0, math.inf)
    tpot_objective_s: float | None = None
    shed_wait_ratio: float = 4.0  # of the TTFT objective; 0 = shed nothing
    standing_queue_ratio: float = 0.25  # of the TTFT objective; 0 = no back-stop
    longest_retry_s: float = 60.0
    # Slots of a replica: see adaptive_slots
    adaptive_slots: bool = True
    most_slots: int = 256  # with a TPOT objective; 0 = never above the configured slots
    # Part of one replica's batch that a tenant may hold while others wait: see batch_share
    batch_share_ratio: float = 1.25  # of its weight share; 0 = all of it
    # Prompts that are held: see prefix_index, fair_queue
    prefix_index_bytes: int = 256 * 1024 * 1024
    sticky_tokens: int = 20_000
    look_ahead_calls: int = 16  # 0 = strict order inside a flow
    quantum_tokens: int = 4_096  # 0 = strict order across flows
    quantum_s: float = 2.0  # what the pool works off in that time, if that is more


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
    preemptions: int | None = None  # by the engine, since its start
    prompt_tokens: int | None = None  # read since its start; falls when it restarts


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
    saturation_ratio: float = 0.0  # 1 = full; see saturation
    fair_share: dict[str, float] = field(default_factory=dict)  # tenant -> entitled slots
    booked_calls: int = 0  # refused calls that were promised a place
    foreign_traffic: frozenset[str] = frozenset()  # replicas that run calls of somebody else
    cached_tokens: dict[str, tuple[int, int]] = field(
        default_factory=dict
    )  # by replica: predicted and reported since start
    slow: dict[str, float] = field(default_factory=dict)  # replica -> times as long as its peers
