"""What would be fair? The oracle of the fairness scenarios.

Weighted max-min fairness by water-filling (Bertsekas and Gallager, "Data Networks", 6.5.2): raise
one water level; a tenant receives weight * level until its demand is met. Independent of the queue.
"""

from __future__ import annotations

from collections.abc import Mapping


def max_min(
    capacity: float, demands: Mapping[str, float], weights: Mapping[str, float]
) -> dict[str, float]:
    """Every tenant's allocation. A backlogged tenant demands ``math.inf``."""
    allocation: dict[str, float] = {}
    left = capacity
    thirst = {tenant: demands[tenant] / weights[tenant] for tenant in demands}
    unmet = sorted(demands, key=lambda tenant: thirst[tenant])
    while unmet:
        level = left / sum(weights[tenant] for tenant in unmet)
        tenant = unmet.pop(0)
        allocation[tenant] = weights[tenant] * min(level, thirst[tenant])
        left -= allocation[tenant]
    return allocation
