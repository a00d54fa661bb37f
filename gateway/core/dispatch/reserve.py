"""How many slots must stay free so that the next interactive call finds one?

The limits of ``holdback`` count the calls of lower classes only. Where interactive calls hold more
than the rest, every slot is taken all the same, and the next one waits for a call to end: at 0.7 of
the capacity that is some 0.5 s for one of a hundred. How many free slots it takes depends on the
load, so it is learned from what interactive calls waited:

  late     waited longer than 5 % of the TTFT objective of the class          -> more, by a step
  on time  any other                                             -> less, by 1/99 of that step

which rests where one of a hundred is late. A step is 1/1000 of the slots, at least 0.1.

Invariants: 0 <= slots kept <= what the lower classes must leave by ``holdback``'s ratio (a tenth);
a pool in which interactive calls do not wait keeps none. Units: slots, seconds.
Source: stochastic approximation of a quantile (Robbins and Monro 1951).
"""

from __future__ import annotations

LATE_RATIO = 0.05  # of the TTFT objective
LATE_PART = 0.01
STEP_RATIO = 0.001  # of the slots
LEAST_STEP = 0.1


class Reserve:
    def __init__(self) -> None:
        self._slots = 0.0

    @property
    def slots(self) -> int:
        return round(self._slots)

    def waited(self, waited_s: float, objective_s: float, *, slots: int, most: int) -> None:
        """An interactive call was dispatched. ``slots``: of the pool; ``most``: it may keep."""
        step = max(LEAST_STEP, STEP_RATIO * slots)
        if waited_s <= LATE_RATIO * objective_s:
            step *= -LATE_PART / (1.0 - LATE_PART)
        self._slots = min(most, max(0.0, self._slots + step))
