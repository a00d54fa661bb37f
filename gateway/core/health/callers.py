"""Do others than this caller use the pool?

What fails for one caller only may be the fault of its requests. Two callers are remembered, the
last and the last other one, which answers the question in O(1). Units: monotonic seconds.
"""

from __future__ import annotations

MEMORY_S = 300.0


class RecentCallers:
    def __init__(self) -> None:
        self._last = self._other = ("", float("-inf"))

    def seen(self, caller: str, now_s: float) -> None:
        if caller != self._last[0]:
            self._other = self._last
        self._last = (caller, now_s)

    def others_than(self, caller: str, now_s: float) -> bool:
        """In the last ``MEMORY_S``."""
        name, seen_s = self._other if self._last[0] == caller else self._last
        return name != caller and now_s - seen_s <= MEMORY_S
