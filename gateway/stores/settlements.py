"""Settlements that the shared store has not confirmed, to be sent again: each is idempotent.

Bounded: beyond ``CAPACITY`` the oldest are dropped and counted. What is dropped is still in the
ledger, from which budgets are seeded; rate buckets have long drained by then.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gateway.core.limits.demands import BucketKey

CAPACITY = 100_000


@dataclass(frozen=True, slots=True)
class Settlement:
    tenant: str
    call_id: str
    charges: Mapping[BucketKey, float]


class Settlements:
    def __init__(self, capacity: int = CAPACITY) -> None:
        self._waiting: deque[Settlement] = deque()
        self._capacity = capacity
        self._taken = 0
        self.dropped = 0

    def __len__(self) -> int:
        """Those that are being sent included."""
        return len(self._waiting) + self._taken

    def add(self, settlement: Settlement) -> None:
        self._waiting.append(settlement)
        if len(self._waiting) > self._capacity:
            self._waiting.popleft()
            self.dropped += 1

    @contextlib.contextmanager
    def taken(self, count: int) -> Iterator[list[Settlement]]:
        """What the caller leaves in the list waits on."""
        batch = [self._waiting.popleft() for _ in range(min(count, len(self._waiting)))]
        self._taken = len(batch)
        try:
            yield batch
        finally:
            self._taken = 0
            for settlement in batch:
                self.add(settlement)
