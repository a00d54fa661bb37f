"""The arithmetic of one bucket: does a demand fit, and if not, how long until it would?

A RATE bucket is a level that drains at ``capacity / window_s`` per second and may stand above its
capacity (debt). A reservation raises it at once; settling corrects it by what was over- or
underestimated, never below empty. So over any span, what was charged <= capacity + refill of that
span + one estimate error per call. BUDGET and LEVEL keep what is held apart from what is used; of
a RATE bucket ``reserved`` tells which part of its level is held, and decides nothing.

Invariants: used >= 0, held >= 0; a step back of the clock drains nothing. Times in monotonic
seconds; amounts in the unit of the bucket.
"""

from __future__ import annotations

from dataclasses import dataclass

from gateway.core.limits.demands import BucketKey, BucketState, Demand, Kind

ROUNDING = 1e-6  # a caller that waited exactly wait_s is not refused for a rounding error
RELEASE_WAIT_S = 1.0  # held by calls that may end at any moment
LEAST_WAIT_S = 0.001
LATE_SETTLE_S = 3_600.0  # how long the bucket of an ended period still takes charges


@dataclass(slots=True)
class Bucket:
    """``capacity`` and ``window_s`` are those of the last demand; 0 until one came."""

    kind: Kind
    at_s: float
    used: float = 0.0
    held: float = 0.0
    capacity: float = 0.0
    window_s: float = 60.0
    forget_s: float = float("inf")  # BUDGET: when its period is long over
    reserved: float = 0.0

    def drain(self, now_s: float) -> None:
        if self.kind is Kind.RATE and now_s > self.at_s:
            self.used = drained(self.used, now_s - self.at_s, self.capacity / self.window_s)
        self.at_s = max(self.at_s, now_s)

    def meet(self, demand: Demand, now_s: float) -> None:
        """Drains by the old limit up to now; from here on the limit of ``demand`` holds."""
        if self.capacity == 0:
            self.capacity, self.window_s = demand.capacity, demand.window_s
        self.drain(now_s)
        self.capacity, self.window_s = demand.capacity, demand.window_s
        if self.kind is Kind.BUDGET:
            self.forget_s = now_s + demand.resets_in_s + LATE_SETTLE_S

    def hold(self, amount: float) -> None:
        if self.kind is Kind.RATE:
            self.used += amount
            self.reserved += amount
        else:
            self.held += amount

    def release(self, amount: float) -> None:
        if self.kind is Kind.RATE:
            self.used = max(0.0, self.used - amount)
            self.reserved = max(0.0, self.reserved - amount)
        else:
            self.held = max(0.0, self.held - amount)

    def charge(self, amount: float) -> None:
        if self.kind is not Kind.LEVEL:
            self.used += amount

    def state(self, key: BucketKey, demand: Demand) -> BucketState:
        return state_of(key, demand, self.used, self.held + self.reserved)


def drained(level: float, elapsed_s: float, rate_per_s: float) -> float:
    return max(0.0, level - max(0.0, elapsed_s) * rate_per_s)


def wait_s(demand: Demand, used: float, held: float) -> float | None:
    """None: ``demand`` fits now."""
    excess = used + held + demand.amount - demand.capacity
    if excess <= ROUNDING:
        return None
    if demand.kind is Kind.RATE:
        return max(LEAST_WAIT_S, excess * demand.window_s / demand.capacity)
    spent = demand.kind is Kind.BUDGET and used + demand.amount > demand.capacity + ROUNDING
    return max(RELEASE_WAIT_S, demand.resets_in_s) if spent else RELEASE_WAIT_S


def state_of(key: BucketKey, demand: Demand, used: float, held: float) -> BucketState:
    """``used`` of a RATE bucket is its level, of which ``held`` is a part as far as it has not
    drained."""
    match demand.kind:
        case Kind.RATE:
            full_again_s = used * demand.window_s / demand.capacity
            held = min(held, used)
            used -= held
        case Kind.BUDGET:
            full_again_s = demand.resets_in_s
        case Kind.LEVEL:
            full_again_s = 0.0
    return BucketState(key, demand.capacity, used, held, full_again_s)
