"""Routing policies by the name that a pool's configuration uses.

A policy is a function of the scene: it names one of the open replicas (at least one), keeps no
state and changes nothing. All of them pass one conformance suite.
"""

from __future__ import annotations

from collections.abc import Callable

from gateway.core.routing.bounded import bounded
from gateway.core.routing.by_load import (
    least_inflight,
    power_of_two,
    random_choice,
    round_robin,
)
from gateway.core.routing.by_match import blend, longest_match, sticky, threshold
from gateway.core.routing.least_cost import least_cost
from gateway.core.routing.scene import Pick, Scene

RoutingPolicy = Callable[[Scene], Pick]


def routing_policy(name: str) -> RoutingPolicy:
    """Raises ValueError that lists the known names."""
    if name not in ROUTING_POLICIES:
        raise ValueError(f"unknown routing policy {name!r}; known: {', '.join(ROUTING_POLICIES)}")
    return ROUTING_POLICIES[name]


ROUTING_POLICIES: dict[str, RoutingPolicy] = {
    "bounded": bounded,
    "least_cost": least_cost,
    "least_inflight": least_inflight,
    "round_robin": round_robin,
    "power_of_two": power_of_two,
    "random": random_choice,
    "threshold": threshold,
    "blend": blend,
    "sticky": sticky,
    "longest_match": longest_match,
}
