"""How long would a call wait that arrived now?

Predicted wait = service cost that waits ahead / service cost dispatched per second, over the last
10 s. With no dispatch in that time the wait is unknown (None), unless nothing waits ahead (0).

Units: service tokens, seconds. Memory: 20 half-second cells. The rate of a pool younger than 10 s
is taken over its age, at least one second.
"""

from __future__ import annotations

from collections import deque

WINDOW_S = 10.0
_CELL_S = 0.5


class DrainRate:
    def __init__(self, now_s: float) -> None:
        self._since_s = now_s
        self._cells: deque[tuple[int, float]] = deque()  # (cell number, cost), oldest first

    def dispatched(self, cost: float, now_s: float) -> None:
        cell = int(now_s // _CELL_S)
        self._drop_old(now_s)
        if self._cells and self._cells[-1][0] == cell:
            cost += self._cells.pop()[1]
        self._cells.append((cell, cost))

    def tps(self, now_s: float) -> float:
        """Service tokens per second."""
        self._drop_old(now_s)
        age_s = max(1.0, min(WINDOW_S, now_s - self._since_s))
        return sum(cost for _, cost in self._cells) / age_s

    def predicted_wait_s(self, cost_ahead: float, now_s: float) -> float | None:
        if cost_ahead <= 0:
            return 0.0
        rate_tps = self.tps(now_s)
        return cost_ahead / rate_tps if rate_tps > 0 else None

    def _drop_old(self, now_s: float) -> None:
        oldest = int((now_s - WINDOW_S) // _CELL_S)
        while self._cells and self._cells[0][0] <= oldest:
            self._cells.popleft()
