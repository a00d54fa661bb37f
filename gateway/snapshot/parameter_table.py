"""The table of the policy parameters: field, unit, bounds, where it is explained, what it does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gateway.core.dispatch.effects import PoolConfig
from gateway.core.priority import PriorityClass


@dataclass(frozen=True, slots=True)
class Parameter:
    """``field`` of ``PoolConfig``, its value for ``klass`` where it has one per class.
    ``module``: where the policy is explained."""

    name: str
    unit: str
    default: float
    least: float
    most: float
    meaning: str
    module: str = ""
    field: str = ""
    klass: PriorityClass | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """Of the table: a field of ``PoolConfig``; ``classes``: those that have a value of their
    own."""

    field: str
    unit: str
    least: float
    most: float
    module: str
    classes: tuple[PriorityClass, ...] = ()
    meaning: str = ""

    def parameters(self) -> Iterator[Parameter]:
        """``wait_limit_s`` becomes ``wait_limit_interactive_s`` and so on."""
        default = getattr(DEFAULTS, self.field)
        rest = (self.least, self.most, self.meaning, self.module, self.field)
        if not self.classes:
            yield Parameter(self.field, self.unit, float(default), *rest)
        stem, _, suffix = self.field.rpartition("_")
        for klass in self.classes:
            name = f"{stem}_{klass.label}_{suffix}"
            yield Parameter(name, self.unit, default[klass], *rest, klass)


DEFAULTS = PoolConfig(replicas=(), weights={})
MIB = 1_048_576
INTERACTIVE, STANDARD, BATCH = PriorityClass
ALL = tuple(PriorityClass)

TABLE = (
    Row(
        "queue_calls_per_tenant",
        "calls",
        1,
        100_000,
        "queues.load",
        meaning="Calls of one tenant and class that may wait in the pool.",
    ),
    Row(
        "queue_bytes_per_tenant",
        "bytes",
        MIB,
        2**40,
        "queues.load",
        meaning="Body bytes of one tenant and class that may wait in the pool.",
    ),
    Row(
        "queue_calls_per_class",
        "calls",
        1,
        1_000_000,
        "queues.load",
        meaning="Calls of one class that may wait in the pool.",
    ),
    Row(
        "queue_bytes_per_class",
        "bytes",
        MIB,
        2**40,
        "queues.load",
        meaning="Body bytes of one class that may wait in the pool.",
    ),
    Row(
        "wait_limit_s",
        "s",
        0.1,
        86_400.0,
        "queues.waiting",
        ALL,
        meaning="How long a call of the class may wait at most.",
    ),
    Row(
        "unstarted_calls",
        "calls",
        1,
        1_000,
        "dispatch.start_rule",
        meaning="Calls a replica may hold without a first event before the step budget counts.",
    ),
    Row(
        "step_budget_tokens",
        "tokens",
        0,
        1_000_000,
        "dispatch.start_rule",
        meaning="Unstarted prompt tokens up to which more calls are sent to a replica.",
    ),
    Row(
        "slot_step_tokens",
        "tokens",
        0,
        1_000_000,
        "dispatch.start_rule",
        meaning="The same where each slot holds one prompt (llama.cpp), instead of both above.",
    ),
    Row(
        "kv_in_flight_ratio",
        "ratio",
        0.1,
        10.0,
        "dispatch.start_rule",
        meaning="Tokens in flight up to which a replica is given calls, of its KV capacity.",
    ),
    Row(
        "brake_waiting_calls",
        "calls",
        0,
        10_000,
        "dispatch.start_rule",
        meaning="Calls in the replica's own queue above which it is given none.",
    ),
    Row(
        "batch_every",
        "parts",
        0,
        10_000,
        "queues.class_order",
        meaning="While batch waits, one part in so many of the service is its; 0 = never.",
    ),
    Row(
        "aged_every",
        "parts",
        0,
        10_000,
        "queues.class_order",
        meaning="One part in so many of the service goes to aged heads; 0 = never.",
    ),
    Row(
        "aged_after_s",
        "s",
        0.1,
        86_400.0,
        "queues.class_order",
        (STANDARD, BATCH),
        meaning="Age from which a head of the class competes as interactive.",
    ),
    Row(
        "holdback_s",
        "s",
        0.0,
        3_600.0,
        "dispatch.holdback",
        meaning="How long slots are held back after a higher class was seen.",
    ),
    Row(
        "holdback_ratio",
        "ratio",
        0.0,
        1.0,
        "dispatch.holdback",
        (STANDARD, BATCH),
        meaning="Part of the pool's slots that the class and those below may hold meanwhile.",
    ),
    Row(
        "preempt_after_s",
        "s",
        0.0,
        3_600.0,
        "dispatch.preemption",
        meaning="Wait of an interactive head after which a batch call gives its slot back.",
    ),
    Row(
        "preemptions_per_call",
        "preemptions",
        0,
        100,
        "dispatch.preemption",
        meaning="How often one call gives its slot back at most; 0 = never.",
    ),
    Row(
        "preempt_waste_ratio",
        "ratio",
        0.0,
        1.0,
        "dispatch.preemption",
        meaning="Part of the completed service that may be thrown away.",
    ),
    Row(
        "ttft_objective_s",
        "s",
        0.01,
        3_600.0,
        "dispatch.shedding",
        (INTERACTIVE, STANDARD),
        meaning="Objective of the time to the first token; goes before that of the pool.",
    ),
    Row(
        "shed_wait_ratio",
        "ratio",
        0.0,
        100.0,
        "dispatch.shedding",
        meaning="Predicted wait above which calls are refused, of the TTFT objective; 0 = never.",
    ),
    Row(
        "standing_queue_ratio",
        "ratio",
        0.0,
        100.0,
        "dispatch.standing_queue",
        meaning="Least wait of an interval above which a queue stands, of the objective; 0 = off.",
    ),
    Row(
        "longest_retry_s",
        "s",
        1.0,
        3_600.0,
        "dispatch.bookings",
        meaning="Longest Retry-After of a refusal for load.",
    ),
    Row(
        "adaptive_slots",
        "0 or 1",
        0,
        1,
        "dispatch.adaptive_slots",
        meaning="Whether the slots of a replica are found out while it runs.",
    ),
    Row(
        "most_slots",
        "slots",
        0,
        10_000,
        "dispatch.adaptive_slots",
        meaning="Up to which a slot limit may grow above the configured slots in a pool with a TPOT"
        " objective; 0 = never above.",
    ),
    Row(
        "batch_share_ratio",
        "ratio",
        0.0,
        100.0,
        "dispatch.batch_share",
        meaning="Part of a replica's batch that a tenant may hold, of its weight share; 0 = all.",
    ),
    Row(
        "prefix_index_bytes",
        "bytes",
        MIB,
        2**40,
        "caches.prefix_index",
        meaning="Memory of the index of prefixes that replicas hold.",
    ),
    Row(
        "sticky_tokens",
        "tokens",
        0,
        100_000_000,
        "routing.by_match",
        meaning="Backlog up to which the policy sticky stays with a replica.",
    ),
    Row(
        "look_ahead_calls",
        "calls",
        0,
        1_000,
        "queues.fair_queue",
        meaning="Calls behind the head of a flow that may go first on a replica with their prefix.",
    ),
    Row(
        "quantum_tokens",
        "service tokens",
        0,
        10_000_000,
        "queues.fair_queue",
        meaning="Least distance of tags within which flows may change places for a prefix.",
    ),
    Row(
        "quantum_s",
        "s",
        0.0,
        60.0,
        "queues.fair_queue",
        meaning="That distance is what the pool works off in this time, where that is more.",
    ),
)
