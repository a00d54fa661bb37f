"""Which tenants are about to ask again?

A call that failed before its first content gives its charge back and asks for another grant a
moment later, without a new lift. Until then its flow may have nothing queued and nothing in flight,
and would be forgotten, which is a lift. So it is held for a short while after each refund.

Invariant: every hold ends, ``RETURN_WITHIN_S`` after it began or at the first moment looked at
later. Times are monotonic seconds.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator

from gateway.core.queues.load import FlowKey

RETURN_WITHIN_S = 5.0


class ReturningFlows:
    def __init__(self) -> None:
        self.soonest_s = math.inf  # no hold ends before
        self._holds: deque[tuple[float, FlowKey]] = deque()

    def hold(self, flow: FlowKey, now_s: float) -> None:
        self._holds.append((now_s + RETURN_WITHIN_S, flow))
        self.soonest_s = self._holds[0][0]

    def over(self, now_s: float) -> Iterator[FlowKey]:
        """Ends the holds whose time is over."""
        while self._holds and self._holds[0][0] <= now_s:
            yield self._holds.popleft()[1]
        self.soonest_s = self._holds[0][0] if self._holds else math.inf

    def __iter__(self) -> Iterator[FlowKey]:
        return (flow for _, flow in self._holds)
