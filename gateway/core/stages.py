"""Who is refused while this process is short of memory, or of time? Fewer callers at each stage,
the least urgent first.

| memory used, share | the event loop stood for | refused with ``gateway_full``              |
| 0.85               | 0.25 s                   | batch                                      |
| 0.92               | 2 s                      | standard too: only interactive is taken    |
| 0.95               |                          | every call, unread; no connection accepted |

A stage is entered at the first reading that reaches it, whatever lies between, and left downwards
at the second reading in a row that is below it. Pure: readings are passed in, of memory every
POLL_S, of the loop at every beat of its watch. An interactive call is never refused for a loop that
stood: what its caller waited cannot be made good by sending it away.
Source: the overload manager of Envoy, which orders its actions so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from gateway.core.errors import Rejected
from gateway.core.priority import PriorityClass
from gateway.core.reasons import Reason

POLL_S: Final = 0.25


class Stage(IntEnum):
    ALL = 0
    NO_BATCH = 1
    INTERACTIVE_ONLY = 2
    NOTHING = 3


@dataclass(frozen=True, slots=True)
class Shortage:
    """Of what, and from which reading on each stage holds."""

    least: Mapping[Stage, float]
    words: str
    retry_after_s: float


MEMORY: Final = Shortage(
    {Stage.NO_BATCH: 0.85, Stage.INTERACTIVE_ONLY: 0.92, Stage.NOTHING: 0.95},
    "The gateway is short of memory.",
    retry_after_s=2.0,
)
LOOP: Final = Shortage(
    {Stage.NO_BATCH: 0.25, Stage.INTERACTIVE_ONLY: 2.0},
    "The gateway has fallen behind.",
    retry_after_s=1.0,
)
_LOWEST_TAKEN: Final = {
    Stage.ALL: PriorityClass.BATCH,
    Stage.NO_BATCH: PriorityClass.STANDARD,
    Stage.INTERACTIVE_ONLY: PriorityClass.INTERACTIVE,
}


class Stages:
    def __init__(self, shortage: Shortage) -> None:
        self._shortage = shortage
        self.stage = Stage.ALL
        self.reading = 0.0  # the last one
        self._below = False  # it was below the stage

    def read(self, reading: float) -> None:
        self.reading = reading
        reached = self._reached(reading)
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
        short = self._shortage
        return Rejected(Reason.GATEWAY_FULL, short.words, retry_after_s=short.retry_after_s)

    def _reached(self, reading: float) -> Stage:
        reached = (stage for stage, least in self._shortage.least.items() if reading >= least)
        return max(reached, default=Stage.ALL)
