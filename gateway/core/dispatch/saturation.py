"""How full is a pool? One number, 0 to 1 and beyond, for pages, alerts and whoever scales.

  saturation = max(calls in flight / slots of the replicas that admit calls,
                   tokens in flight / their KV capacity,
                   predicted wait of interactive / its TTFT objective)

The first two end at about 1; the third says how far beyond it is. A part that is not known (no
slots, no measured drain rate) is left out. Computed from what is now: it has no state, so it falls
as soon as its cause is gone.
"""

from __future__ import annotations

from collections.abc import Iterable

from gateway.core.routing.replica import Replica


def saturation_ratio(
    replicas: Iterable[Replica], interactive_wait_s: float | None, objective_s: float
) -> float:
    admitting = [replica for replica in replicas if replica.admits]
    slots = sum(replica.slots for replica in admitting)
    kv_tokens = sum(replica.config.kv_tokens for replica in admitting)
    parts = [
        sum(replica.in_flight for replica in admitting) / slots if slots else 0.0,
        sum(each.in_flight_tokens for each in admitting) / kv_tokens if kv_tokens else 0.0,
        (interactive_wait_s or 0.0) / objective_s,
    ]
    return max(parts)
