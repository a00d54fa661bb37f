"""Was anybody kept waiting? Gaps and waits of single tenants, in seconds."""

from __future__ import annotations

from itertools import pairwise

from gateway.simulation.simulator import Run


def longest_gap_s(run: Run, tenant: str, from_s: float) -> float:
    """The longest time after ``from_s`` in which no call of ``tenant`` was dispatched."""
    times = sorted(
        outcome.dispatched_s
        for outcome in run.outcomes
        if outcome.call.tenant == tenant
        and outcome.dispatched_s is not None
        and outcome.dispatched_s >= from_s
    )
    return max(later - earlier for earlier, later in pairwise([from_s, *times, run.ended_s]))


def longest_wait_s(run: Run, tenant: str, from_s: float = 0.0) -> float:
    """From arrival to dispatch; one that waits still counts with its age."""
    return max(
        (run.ended_s if outcome.dispatched_s is None else outcome.dispatched_s) - outcome.call.at_s
        for outcome in run.outcomes
        if outcome.call.tenant == tenant and outcome.call.at_s >= from_s
    )
