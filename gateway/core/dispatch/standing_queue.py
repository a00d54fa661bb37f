"""Is the queue of a class a burst that passes, or does it stand?

A queue that absorbs a burst is good; one whose delay never falls only makes everybody late by the
same time. CoDel's test tells them apart: the *minimum* delay over an interval. If even the best
moment of an interval was above the target, the queue stands, and from then on calls are refused
earlier: at twice the target in place of the whole budget. Target: 0.25 of the class's TTFT
objective; interval: the objective.

Delay here is the predicted wait, looked at whenever a call of the class arrives or leaves. The
sojourn of dispatched calls would not do behind a fair queue: the light tenants' calls pass at once
while a heavy tenant's stand.

Invariants: an empty queue ends it at once, and so does an interval whose minimum is below the
target, so it cannot outlive its cause. Units: monotonic seconds.
Source: Nichols and Jacobson, "Controlling Queue Delay" (ACM Queue 2012); "Fail at Scale" (ACM Queue
2015) and folly's Codel for request queues: refuse above twice the target.
"""

from __future__ import annotations

import math


class StandingQueue:
    def __init__(self) -> None:
        self.stands = False
        self._least_s = math.inf
        self._interval_ends_s = -math.inf

    def observe(self, delay_s: float, now_s: float, *, target_s: float, interval_s: float) -> None:
        if delay_s <= 0.0:
            self.stands = False
        if now_s >= self._interval_ends_s:
            seen = self._interval_ends_s > now_s - 2 * interval_s  # else nobody looked meanwhile
            self.stands = seen and target_s < self._least_s < math.inf
            self._least_s = math.inf
            self._interval_ends_s = now_s + interval_s
        self._least_s = min(self._least_s, delay_s)
