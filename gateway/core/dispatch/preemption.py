"""Which batch call gives its slot back to an interactive one?

Late binding and holdback keep slots free for interactive calls most of the time. When they do not,
because batch calls that run for minutes hold everything, one is taken back:

  when    an interactive head has waited 500 ms and every replica that could run it is out of slots
  whom    batch, nothing of it relayed, taken back fewer than 2 times before, not of the twentieth
          that ``class_order`` owes to batch; the one with the least output so far, on a replica
          where the head may run
  budget  what is thrown away (its prompt and its output so far) is at most 3 % of the service that
          was completed: each completed call earns 3 % of its cost, each preemption spends

One at a time: the next is looked for once the last has given its slot back, which takes
milliseconds. The call asks again with the same arrival and deadline, is charged nothing for the
lost attempt, and goes before the other calls of its flow.

Invariants: wasted <= 3 % of what was completed, at every moment; a call is preempted at most twice;
whatever was relayed is never lost. Units: monotonic seconds, service tokens.
"""

from __future__ import annotations

from gateway.core.dispatch.effects import PoolConfig
from gateway.core.dispatch.lease import Lease
from gateway.core.queues.call import QueuedCall
from gateway.core.routing.roster import Roster

LOOK_EVERY_S = 0.05
MOST_SAVED = 100_000.0  # service tokens: what long calm may save up


class Preemption:
    def __init__(self, config: PoolConfig, roster: Roster) -> None:
        self.config = config
        self._roster = roster
        self.budget = 0.0
        self.wasted = 0.0
        self._may_go: dict[int, Lease] = {}  # grants that may be taken back
        self._taking: int | None = None
        self._looked_s = -LOOK_EVERY_S

    def due(self, now_s: float) -> bool:
        """Time to look for a victim, if an interactive head waits."""
        if not self._may_go or self._taking is not None:
            return False
        return now_s >= self._looked_s + LOOK_EVERY_S

    @property
    def possible(self) -> bool:
        return bool(self._may_go) and self._taking is None

    def granted(self, grant_id: int, lease: Lease) -> None:
        """A batch call."""
        if not lease.spared and lease.ticket.preemptions < self.config.preemptions_per_call:
            self._may_go[grant_id] = lease

    def relayed(self, grant_id: int) -> None:
        self._may_go.pop(grant_id, None)

    def ended(self, grant_id: int, lease: Lease, *, refund: bool) -> None:
        self._may_go.pop(grant_id, None)
        if grant_id == self._taking:
            self._taking = None
            if refund:
                self.wasted += lease.cost_of_output
                self.budget -= lease.cost_of_output
                return
        if not refund:
            earned = self.config.preempt_waste_ratio * lease.charge.cost
            self.budget = min(MOST_SAVED, self.budget + earned)

    def next_s(self, head: QueuedCall | None, now_s: float) -> float | None:
        """When the head will have waited long enough; None: nothing can come of it."""
        if head is None or not self.possible:
            return None
        due_s = head.queued_s + self.config.preempt_after_s
        looked = self._looked_s >= due_s
        return None if looked else max(due_s, self._looked_s + LOOK_EVERY_S)

    def victim(self, head: QueuedCall, now_s: float) -> tuple[int, Lease] | None:
        """Whom to take back for ``head``, which no replica is open for. It counts as taken."""
        self._looked_s = now_s
        if not self.possible or now_s < head.queued_s + self.config.preempt_after_s:
            return None
        least: tuple[int, Lease] | None = None
        for grant_id, lease in self._may_go.items():
            if self._serves(lease, head) and (
                least is None or lease.output_tokens < least[1].output_tokens
            ):
                least = (grant_id, lease)
        if least is None or least[1].cost_of_output > self.budget:
            return None
        self._taking = least[0]
        self.relayed(least[0])
        return least

    def _serves(self, lease: Lease, head: QueuedCall) -> bool:
        replica = lease.replica
        return (
            self._roster.get(replica.slug) is replica
            and replica.admits
            and not replica.has_free_slot
            and head.lane.admits(replica.slug)
        )
