"""On how many replicas should one prefix be held?

A prefix that makes up the share s of the pool's tokens can be served by one replica of N only
while s <= 1/N. Held by k = ceil(s * N / 1.25) replicas, none of them carries more than 1.25 times
the mean of it. Shares are decayed sums over about ten seconds. Bounded: the least of many prefixes
are forgotten. Units: tokens.
"""

from __future__ import annotations

import math

DECAY_S = 10.0
MOST_PREFIXES = 4_096
MOST_LOAD_RATIO = 1.25


class HotPrefixes:
    def __init__(self) -> None:
        self._sums: dict[int, tuple[float, float]] = {}  # prefix -> (tokens, as of)
        self._total = 0.0
        self._as_of_s = 0.0

    def seen(self, prefix: int, tokens: int, now_s: float) -> None:
        self._total = self._decayed(self._total, self._as_of_s, now_s) + tokens
        self._as_of_s = now_s
        before, as_of_s = self._sums.get(prefix, (0.0, now_s))
        self._sums[prefix] = (self._decayed(before, as_of_s, now_s) + tokens, now_s)
        if len(self._sums) > MOST_PREFIXES:
            self._forget(now_s)

    def copies(self, prefix: int, replicas: int, now_s: float) -> int:
        """1 for a prefix that was not seen."""
        if prefix not in self._sums or not self._total:
            return 1
        tokens = self._decayed(*self._sums[prefix], now_s)
        share = tokens / self._decayed(self._total, self._as_of_s, now_s)
        return min(replicas, max(1, math.ceil(share * replicas / MOST_LOAD_RATIO)))

    def _forget(self, now_s: float) -> None:
        by_tokens = sorted(
            self._sums, key=lambda prefix: self._decayed(*self._sums[prefix], now_s), reverse=True
        )
        self._sums = {prefix: self._sums[prefix] for prefix in by_tokens[: MOST_PREFIXES // 2]}

    def _decayed(self, tokens: float, as_of_s: float, now_s: float) -> float:
        return tokens * math.exp((as_of_s - now_s) / DECAY_S)
