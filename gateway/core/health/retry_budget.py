"""May a failed call be tried again?

A bucket of 10 retries: every call adds 0.1, every retry takes 1. So attempts <= 1.10 * calls + 10
over any time, whatever the replicas do, and a pool that fails as a whole is not asked twice as
often.

One budget per pool and one owner of retries, or the factors multiply. Counted in tenths, in
integers: the bound is exact. Source: Finagle's RetryBudget; the SRE book, "Handling Overload".
"""

from __future__ import annotations

_TENTHS = 10  # of one retry


class RetryBudget:
    def __init__(self, *, capacity: int = 10) -> None:
        self._full = capacity * _TENTHS
        self._tenths = self._full

    @property
    def retries_left(self) -> float:
        return self._tenths / _TENTHS

    def call_started(self) -> None:
        """Once per call, not per attempt."""
        self._tenths = min(self._full, self._tenths + 1)

    def try_spend(self) -> bool:
        """True: one retry is paid for and must be made now."""
        if self._tenths < _TENTHS:
            return False
        self._tenths -= _TENTHS
        return True
