"""Is the shared store to be asked at all? Pure; times in monotonic seconds.

Opens after ``FAILURES`` failures within ``WITHIN_S``. It closes only when its owner says so, after
a probe has succeeded: calls never test a store that is believed lost.
"""

from __future__ import annotations

from collections import deque
from enum import StrEnum

FAILURES = 5
WITHIN_S = 1.0
PROBE_EVERY_S = 1.0
SUSPECT_PROBE_EVERY_S = 0.02


class Trust(StrEnum):
    TRUSTED = "trusted"
    SUSPECT = "suspect"  # something failed lately; still asked, and probed at once
    LOST = "lost"  # not asked; probed every second


class Breaker:
    def __init__(self) -> None:
        self._failed_at_s: deque[float] = deque(maxlen=FAILURES)
        self.trust = Trust.TRUSTED

    def failed(self, now_s: float) -> bool:
        """True when this failure opened it."""
        self._failed_at_s.append(now_s)
        if self.trust is Trust.LOST:
            return False
        full = len(self._failed_at_s) == FAILURES
        opens = full and now_s - self._failed_at_s[0] <= WITHIN_S
        self.trust = Trust.LOST if opens else Trust.SUSPECT
        return opens

    def close(self) -> None:
        self._failed_at_s.clear()
        self.trust = Trust.TRUSTED

    @property
    def probe_in_s(self) -> float:
        return PROBE_EVERY_S if self.trust is Trust.LOST else SUSPECT_PROBE_EVERY_S
