"""May one more replica of this pool be ejected?

Ejection is a guess about replicas whose probes pass, so it may never take away more than half of
the pool (rounded down), and never the last replica that admits calls: a bad replica is better than
none.
"""

from __future__ import annotations

from collections.abc import Collection

from gateway.core.health.machine import HealthState, ReplicaHealthMachine


def may_eject(candidate: ReplicaHealthMachine, pool: Collection[ReplicaHealthMachine]) -> bool:
    """``pool`` holds every machine of the pool, with or without ``candidate``."""
    others = [machine for machine in pool if machine is not candidate]
    ejected = sum(machine.state is HealthState.EJECTED for machine in others)
    return any(machine.admits for machine in others) and ejected + 1 <= (len(others) + 1) // 2
