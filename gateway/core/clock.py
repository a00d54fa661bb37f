"""Where time comes from. Monotonic seconds drive every decision; the wall clock names periods."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    def monotonic(self) -> float:
        """Seconds, never going back; origin undefined."""
        ...

    def wall(self) -> float:
        """Seconds since the Unix epoch, UTC; may jump."""
        ...


class SystemClock:
    monotonic = staticmethod(time.monotonic)
    wall = staticmethod(time.time)
