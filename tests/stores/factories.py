"""Demands and call ids for tests."""

from __future__ import annotations

import itertools

from gateway.core.limits.demands import BucketKey, Demand
from gateway.core.limits.limit import CREDIT, METER_NAMED

CALL_NUMBERS = itertools.count()
HOUR_S = 3_600.0


def call_id() -> str:
    return f"call-{next(CALL_NUMBERS)}"


def demand(
    meter: str,
    amount: float,
    capacity: float,
    *,
    tenant: str = "acme",
    key_id: str = "",
    window_s: float = HOUR_S,
    fails_closed: bool = True,
) -> Demand:
    """A rate bucket refills slowly, so that a test sees no refill."""
    facts = METER_NAMED.get(meter, CREDIT)
    owner = f"key:{tenant}/{key_id}" if key_id else f"org:{tenant}"
    period = {"day": "2026-11-30", "month": "2026-11"}.get(meter, "")
    return Demand(
        BucketKey(owner, meter, period=period),
        facts.kind,
        facts.reason,
        capacity,
        amount,
        window_s=window_s,
        resets_in_s=HOUR_S,
        fails_closed=fails_closed,
    )
