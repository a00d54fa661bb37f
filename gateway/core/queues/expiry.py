"""Which calls have waited too long, exactly?

A heap of expiry times. Entries of calls that left are dead: they are dropped at the top, and all of
them once they outnumber the calls that wait, so that memory follows the queue.

Invariants: ``next_s`` is the expiry of a call that waits, never of one that left; a call is due at
the very moment ``now_s >= expires_s``. Times are monotonic seconds.
"""

from __future__ import annotations

import heapq
import math

from gateway.core.queues.call import QueuedCall

_SLACK = 64


class ExpiryHeap:
    def __init__(self) -> None:
        self.soonest_s = math.inf  # nothing is due before
        self._live: set[QueuedCall] = set()
        self._entries: list[tuple[float, int, QueuedCall]] = []

    def add(self, call: QueuedCall) -> None:
        self._live.add(call)
        heapq.heappush(self._entries, (call.expires_s, call.sequence, call))
        if call.expires_s < self.soonest_s:
            self.soonest_s = call.expires_s
        if len(self._entries) > 2 * len(self._live) + _SLACK:
            self._entries = [entry for entry in self._entries if entry[2] in self._live]
            heapq.heapify(self._entries)

    def discard(self, call: QueuedCall) -> None:
        self._live.discard(call)

    @property
    def next_s(self) -> float | None:
        while self._entries and self._entries[0][2] not in self._live:
            heapq.heappop(self._entries)
        next_s = self._entries[0][0] if self._entries else None
        self.soonest_s = math.inf if next_s is None else next_s
        return next_s

    def first_due(self, now_s: float) -> QueuedCall | None:
        """The call that is over for longest. It stays; the caller takes it out."""
        if now_s < self.soonest_s:
            return None
        next_s = self.next_s
        return self._entries[0][2] if next_s is not None and next_s <= now_s else None
