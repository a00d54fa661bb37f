"""Among the replicas that may run a call now, which one gets it?

The candidates admit calls, are eligible, have not failed this call and have a free slot. Load is
what this gateway has granted and not got back, in tokens; it is counted at the grant, not when a
replica answers, so that a burst sees itself. Equal loads are broken at random: calls to an idle
pool do not all go to the replica that happens to come first.

A policy is a function of the candidates (at least one) and a source of randomness; it keeps no
state and changes nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from gateway.core.routing.replica import Replica

RoutingPolicy = Callable[[Sequence[Replica], random.Random], Replica]


def least_inflight(candidates: Sequence[Replica], rng: random.Random) -> Replica:
    """Fewest tokens in flight."""
    least = min(replica.in_flight_tokens for replica in candidates)
    ties = [replica for replica in candidates if replica.in_flight_tokens == least]
    return ties[0] if len(ties) == 1 else rng.choice(ties)


def round_robin(candidates: Sequence[Replica], rng: random.Random) -> Replica:
    """Granted longest ago; those never granted first, at random."""
    longest_ago = min(replica.last_grant_id for replica in candidates)
    ties = [replica for replica in candidates if replica.last_grant_id == longest_ago]
    return ties[0] if len(ties) == 1 else rng.choice(ties)


def routing_policy(name: str) -> RoutingPolicy:
    """Raises ValueError that lists the known names."""
    if name not in ROUTING_POLICIES:
        raise ValueError(f"unknown routing policy {name!r}; known: {', '.join(ROUTING_POLICIES)}")
    return ROUTING_POLICIES[name]


ROUTING_POLICIES: dict[str, RoutingPolicy] = {
    "least_inflight": least_inflight,
    "round_robin": round_robin,
}
