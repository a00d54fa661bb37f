"""How fast does the pool work off what waits, and how long would a call wait that arrived now?

The rate that matters is the one of a pool that has as much as it can do: what a half idle pool
dispatches says how much was asked of it, not how much it can give. So only *saturated* time counts:
moments in which a call waited and no replica was open.

  rate            service cost dispatched while saturated / saturated seconds, over the last 10 s
  left for a class  rate - what the classes above it took of it, at least 5 %: they go first also
                  tomorrow
  predicted wait  service cost that waits ahead / what is left for the class

With less than half a saturated second or fewer than 4 dispatches in the window, and while the pool
is not saturated, the last known rate stands; before the first one the wait is unknown (None),
unless nothing waits ahead (0). A pool that is saturated and dispatches nothing slows down: the last
rate * 10 s / time since its last dispatch.

Units: service tokens, monotonic seconds. Memory: 20 half-second cells.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from gateway.core.priority import PriorityClass

WINDOW_S = 10.0
_CELL_S = 0.5
LEAST_SATURATED_S = 0.5
LEAST_DISPATCHES = 4
LEAST_LEFT_RATIO = 0.05
LOOK_EVERY_S = 0.1  # while saturated, the rates are this old at most


@dataclass(slots=True)
class _Sums:
    calls: int = 0
    saturated_s: float = 0.0
    costs: list[float] = field(default_factory=lambda: [0.0] * len(PriorityClass))


class DrainRate:
    def __init__(self, now_s: float) -> None:
        self._cells: deque[tuple[int, _Sums]] = deque()  # (cell number, sums), oldest first
        self._sums = _Sums()  # of the last cell
        self._cell_end_s = -WINDOW_S
        self.saturated = False  # as last told
        self._told_s = now_s
        self._dispatched_s = now_s
        self._known: tuple[float, ...] | None = None  # tokens per second by class
        self._measured: tuple[float, ...] | None = None  # at the last look with enough samples
        self._looked_s = -WINDOW_S

    def tell(self, now_s: float, *, saturated: bool) -> None:
        """After every event: how the pool stands from now on."""
        if self.saturated and now_s > self._told_s:
            sums = self._sums if now_s < self._cell_end_s else self._new_cell(now_s)
            sums.saturated_s += now_s - self._told_s
        self._told_s = now_s
        if self.saturated and not saturated:
            self._rates(now_s)  # nothing new comes until it is saturated again
        self.saturated = saturated

    def dispatched(self, klass: PriorityClass, cost: float, now_s: float) -> None:
        """Counts while saturated. Before the event that freed the slot is followed by ``tell``."""
        if self.saturated:
            sums = self._sums if now_s < self._cell_end_s else self._new_cell(now_s)
            sums.calls += 1
            sums.costs[klass] += cost
            self._dispatched_s = now_s

    def tps(self, now_s: float) -> float | None:
        """Service tokens per second, of all classes. None = not known yet."""
        rates = self._rates(now_s)
        return None if rates is None else sum(rates)

    def left_tps(self, klass: PriorityClass, now_s: float) -> float | None:
        """What the classes above leave for this one."""
        rates = self._rates(now_s)
        if rates is None:
            return None
        total = sum(rates)
        return max(LEAST_LEFT_RATIO * total, total - sum(rates[:klass]))

    def predicted_wait_s(
        self, klass: PriorityClass, cost_ahead: float, now_s: float
    ) -> float | None:
        if cost_ahead <= 0:
            return 0.0
        rate_tps = self.left_tps(klass, now_s)
        return cost_ahead / rate_tps if rate_tps else None

    def _rates(self, now_s: float) -> tuple[float, ...] | None:
        if self.saturated and now_s - self._looked_s >= LOOK_EVERY_S:
            self._look(now_s)
        return self._known

    def _look(self, now_s: float) -> None:
        self._looked_s = now_s
        self._drop_old(now_s)
        pending_s = max(0.0, now_s - self._told_s) if self.saturated else 0.0
        saturated_s = pending_s + sum(sums.saturated_s for _, sums in self._cells)
        calls = sum(sums.calls for _, sums in self._cells)
        if saturated_s >= LEAST_SATURATED_S and calls >= LEAST_DISPATCHES:
            costs = zip(*(sums.costs for _, sums in self._cells), strict=True)
            self._known = tuple(sum(of_class) / saturated_s for of_class in costs)
            self._measured = self._known
        elif self._measured is not None and self.saturated:
            silent_s = max(WINDOW_S, now_s - self._dispatched_s)
            self._known = tuple(rate * WINDOW_S / silent_s for rate in self._measured)

    def _new_cell(self, now_s: float) -> _Sums:
        number = int(now_s // _CELL_S)
        self._drop_old(now_s)
        self._sums = _Sums()
        self._cells.append((number, self._sums))
        self._cell_end_s = (number + 1) * _CELL_S
        return self._sums

    def _drop_old(self, now_s: float) -> None:
        oldest = int((now_s - WINDOW_S) // _CELL_S)
        while self._cells and self._cells[0][0] <= oldest:
            self._cells.popleft()
