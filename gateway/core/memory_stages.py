"""Who is refused while memory is short? Fewer callers at each stage, the least urgent first.

| from (share of the limit) | refused with ``gateway_full``                        |
| 0.85                      | batch                                                |
| 0.92                      | standard too: only interactive calls are taken       |
| 0.95                      | every call, unread; no connection is accepted either |

A stage is entered at the first reading that reaches it, whatever lies between, and left downwards
at the second reading in a row that is below it. Pure: a reading is passed in, every POLL_S seconds.
Source: the overload manager of Envoy, which orders its actions so.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from gateway.core.errors import Rejected
from gateway.core.priority import PriorityClass
from gateway.core.reasons import Reason

POLL_S: Final = 0.25
RETRY_AFTER_S: Final = 2.0


class Stage(IntEnum):
    ALL = 0
    NO_BATCH = 1
    INTERACTIVE_ONLY = 2
    NOTHING = 3


FROM_RATIO: Final = {
    Stage.NO_BATCH: 0.85,
    Stage.INTERACTIVE_ONLY: 0.92,
    Stage.NOTHING: 0.95,
}
_LOWEST_TAKEN: Final = {
    Stage.ALL: PriorityClass.BATCH,
    Stage.NO_BATCH: PriorityClass.STANDARD,
    Stage.INTERACTIVE_ONLY: PriorityClass.INTERACTIVE,
}


class MemoryStages:
    def __init__(self) -> None:
        self.stage = Stage.ALL
        self.used_ratio = 0.0  # of the limit, at the last reading
        self._below = False  # the last reading was below the stage

    def read(self, used_ratio: float) -> None:
        self.used_ratio = used_ratio
        reached = stage_at(used_ratio)
        if reached >= self.stage or self._below:
            self.stage, self._below = reached, False
        else:
            self._below = True

    def check(self, klass: PriorityClass) -> None:
        """Raises Rejected(GATEWAY_FULL)."""
        if self.stage is Stage.NOTHING or klass > _LOWEST_TAKEN[self.stage]:
            raise self.refusal()

    def check_all(self) -> None:
        """Before anything is known of a call. Raises Rejected(GATEWAY_FULL)."""
        if self.stage is Stage.NOTHING:
            raise self.refusal()

    def refusal(self) -> Rejected:
        words = "The gateway is short of memory."
        return Rejected(Reason.GATEWAY_FULL, words, retry_after_s=RETRY_AFTER_S)


def stage_at(used_ratio: float) -> Stage:
    reached = (stage for stage, least in FROM_RATIO.items() if used_ratio >= least)
    return max(reached, default=Stage.ALL)
