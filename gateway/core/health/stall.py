"""Do the calls in flight on a replica still receive tokens?

A replica stalls when it has calls in flight and none of them got a token for
max(30 s, 20 * TPOT p99): its health page may answer all the while. The clock starts at the last
token, or when it went from idle to busy if that is later.

Units: monotonic seconds; TPOT seconds per token.
"""

from __future__ import annotations

STALL_AFTER_S = 30.0
STALL_AFTER_TPOTS = 20.0


class StallWatch:
    def __init__(self, now_s: float) -> None:
        self._in_flight = 0
        self._since_s = now_s

    def started(self, now_s: float) -> None:
        """A call was dispatched to the replica."""
        if not self._in_flight:
            self._since_s = now_s
        self._in_flight += 1

    def ended(self) -> None:
        self._in_flight -= 1
        assert self._in_flight >= 0

    def progress(self, now_s: float) -> None:
        """A token of any call; also after a stall was reported, to start the clock again."""
        self._since_s = now_s

    def stalls_at_s(self, tpot_p99_s: float | None = None) -> float | None:
        """None: nothing is in flight."""
        if not self._in_flight:
            return None
        return self._since_s + max(STALL_AFTER_S, STALL_AFTER_TPOTS * (tpot_p99_s or 0.0))
