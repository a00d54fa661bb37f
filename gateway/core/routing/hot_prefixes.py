"""On how many replicas should one prefix be held?

A prefix that makes up the share s of the pool's tokens can be served by one replica of N only
while s <= 1/N. Held by k = ceil(s * N / 1.25) replicas, none of them carries more than 1.25 times
the mean of it. Shares are decayed sums over about ten seconds. Bounded: the least of many prefixes
are forgotten. Units: tokens.
"""

from __future__ import annotations

import math

DECAY_S = 10.0
REBASE_S = 100.0
MOST_PREFIXES = 4_096
MOST_LOAD_RATIO = 1.25


class HotPrefixes:
    """Sums are kept as they were at ``_base_s``: what comes later counts for more, so that nothing
    needs to be decayed but the base, now and then."""

    def __init__(self) -> None:
        self._sums: dict[int, float] = {}
        self._total = 0.0
        self._base_s = 0.0

    def seen(self, prefix: int, tokens: int, now_s: float) -> None:
        if now_s - self._base_s > REBASE_S:
            self._rebase(now_s)
        weighed = tokens * math.exp((now_s - self._base_s) / DECAY_S)
        self._total += weighed
        self._sums[prefix] = self._sums.get(prefix, 0.0) + weighed
        if len(self._sums) > MOST_PREFIXES:
            self._forget()

    def copies(self, prefix: int, replicas: int) -> int:
        """1 for a prefix that was not seen."""
        tokens = self._sums.get(prefix)
        if not tokens:
            return 1
        return min(replicas, max(1, math.ceil(tokens / self._total * replicas / MOST_LOAD_RATIO)))

    def _forget(self) -> None:
        by_tokens = sorted(self._sums, key=self._sums.__getitem__, reverse=True)
        self._sums = {prefix: self._sums[prefix] for prefix in by_tokens[: MOST_PREFIXES // 2]}

    def _rebase(self, now_s: float) -> None:
        decay = math.exp((self._base_s - now_s) / DECAY_S)
        self._sums = {prefix: tokens * decay for prefix, tokens in self._sums.items()}
        self._total *= decay
        self._base_s = now_s
