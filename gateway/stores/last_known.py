"""What this process last saw of each bucket, bounded, least recently seen first out.

Budgets only grow within their period, so the last seen total is a floor that a store which lost its
data is raised to. Rate levels are what a local share starts from when the store is lost.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import NamedTuple

from gateway.core.limits.demands import BucketKey, BucketState
from gateway.core.limits.limit import RATE_METERS

CAPACITY = 50_000


class Seen(NamedTuple):
    """``used`` of a rate bucket is its level, reservations included."""

    used: float
    held: float
    at_s: float


NEVER = Seen(0.0, 0.0, 0.0)


class LastKnown:
    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._seen: OrderedDict[BucketKey, Seen] = OrderedDict()

    def note(self, states: Iterable[BucketState], now_s: float) -> None:
        seen = self._seen
        for state in states:
            key, level = state.key, state.used
            if key.meter in RATE_METERS:
                level += state.held
            seen[key] = Seen(level, state.held, now_s)
            seen.move_to_end(key)
        while len(seen) > self._capacity:
            seen.popitem(last=False)

    def raise_to(self, key: BucketKey, used: float, now_s: float) -> None:
        seen = self.get(key)
        self._put(key, Seen(max(seen.used, used), seen.held, now_s))

    def get(self, key: BucketKey) -> Seen:
        return self._seen.get(key, NEVER)

    def _put(self, key: BucketKey, seen: Seen) -> None:
        self._seen[key] = seen
        self._seen.move_to_end(key)
        if len(self._seen) > self._capacity:
            self._seen.popitem(last=False)
