"""Which rules are compared in a run? A policy by its name.

QUEUE/ROUTING         Fairway: a queue and a routing policy of ``gateway.core`` by their names
QUEUE/ROUTING/oracle  the same, told how long each answer will be
direct                no gateway: every call goes to the replicas in turn
rpm/N                 no gateway, but at most N calls per tenant and minute
engine/SCHEDULER      no gateway; the engine itself schedules (S-LoRA engine only)
"""

from __future__ import annotations

from dataclasses import dataclass

from gateway.core.queues.registry import QUEUES
from gateway.core.routing.policies import ROUTING_POLICIES
from gateway.simulation.engines.admission import SCHEDULERS

VARIANTS = ("oracle", "strict", "now")


@dataclass(frozen=True, slots=True)
class Policy:
    """``queue`` empty: no gateway."""

    name: str
    queue: str = ""
    routing: str = ""
    knows_lengths: bool = False
    strict: bool = False
    sends_at_once: bool = False
    calls_per_minute: int | None = None
    scheduler: str = "fcfs"


def parse_policy(name: str) -> Policy:
    """Raises ValueError that lists what is known."""
    if name == "direct":
        return Policy(name)
    first, _, rest = name.partition("/")
    if first == "rpm" and rest.isdecimal():
        return Policy(name, calls_per_minute=int(rest))
    if first == "engine" and rest in SCHEDULERS:
        return Policy(name, scheduler=rest)
    routing, _, variant = rest.partition("/")
    if first in QUEUES and routing in ROUTING_POLICIES and variant in ("", *VARIANTS):
        return Policy(
            name,
            first,
            routing,
            knows_lengths=variant == "oracle",
            strict=variant == "strict",
            sends_at_once=variant == "now",
        )
    raise ValueError(
        f"unknown policy {name!r}; known: direct, rpm/N, engine/{{{','.join(SCHEDULERS)}}},"
        f" {{{','.join(QUEUES)}}}/{{{','.join(ROUTING_POLICIES)}}}[/oracle|/strict|/now]"
    )
