"""Is the queue of a class a burst that passes, or does it stand?

A queue that absorbs a burst is good; one whose delay never falls only makes everybody late by the
same time. CoDel's test tells them apart: the *minimum* delay over an interval. If even the best
moment of an interval was above the target, the queue stands, and from then on calls are refused
earlier: at twice the target in place of the whole budget. Target: 0.25 of the class's TTFT
objective; interval: the objective.

Delay here is the predicted wait, looked at whenever a call of the class arrives or leaves. The
sojourn of dispatched calls would not do behind a fair queue: the light tenants' calls pass at once
while a heavy tenant's stand.

Invariants: one look at or below the target ends it at once, an empty queue always does, and so does
an interval in which nobody looked, so it cannot outlive its cause. Units: monotonic seconds.
Source: Nichols and Jacobson, "Controlling Queue Delay" (ACM Queue 2012); "Fail at Scale" (ACM Queue
2015) and folly's Codel for request queues: refuse above twice the target.
"""

from __future__ import annotations


class StandingQueue:
    def __init__(self) -> None:
        self.stands = False
        self._above_since_s: float | None = None
        self._looked_s = 0.0

    def empty(self, now_s: float) -> None:
        """Nothing waits."""
        self._looked_s, self._above_since_s, self.stands = now_s, None, False

    def observe(self, delay_s: float, now_s: float, *, target_s: float, interval_s: float) -> None:
        unseen = now_s - self._looked_s > interval_s
        self._looked_s = now_s
        if delay_s <= target_s:
            self._above_since_s = None
        elif self._above_since_s is None or unseen:
            self._above_since_s = now_s
        since_s = self._above_since_s
        self.stands = since_s is not None and now_s - since_s >= interval_s
