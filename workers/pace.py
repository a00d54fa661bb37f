"""How many lines of a batch may be in flight at once? As many as the gateway takes.

A refusal for want of capacity halves the number, once for all calls that were under way together;
as many answers as the number add one to it. Until the moment that a refusal named nothing starts.
Pure; seconds of a monotonic clock are passed in.
"""

from __future__ import annotations


class Pace:
    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._answers = 0
        self._halved_s = float("-inf")
        self.limit = at_once
        self.resume_s = float("-inf")

    def free(self, running: int, now_s: float) -> int:
        """How many may start now."""
        return max(0, self.limit - running) if now_s >= self.resume_s else 0

    def wait_s(self, now_s: float) -> float:
        return max(0.0, self.resume_s - now_s)

    def refused(self, started_s: float, wait_s: float, now_s: float) -> None:
        if started_s >= self._halved_s:
            self.limit = max(1, self.limit // 2)
            self._answers = 0
            self._halved_s = now_s
        self.resume_s = max(self.resume_s, now_s + wait_s)

    def answered(self, answers: int) -> None:
        self._answers += answers
        if self._answers >= self.limit:
            self._answers = 0
            self.limit = min(self._at_once, self.limit + 1)
