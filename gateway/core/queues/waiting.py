"""Every call of one pool that waits: who is next, who is late, who is stranded.

Puts the class order, one fair queue per class, the load counts and the expiry heap behind one face,
so that a call enters and leaves all of them together.

Invariant: a call is in all parts or in none; ``len`` counts the calls that wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Set
from itertools import count

from gateway.core.dispatch.effects import PoolConfig, Ticket
from gateway.core.priority import PriorityClass
from gateway.core.queues.call import CallQueue, Charge, QueuedCall
from gateway.core.queues.class_order import Choice, ClassOrder
from gateway.core.queues.expiry import ExpiryHeap
from gateway.core.queues.lane import ANYWHERE, Lane
from gateway.core.queues.load import QueueLoad
from gateway.core.queues.locality import Liberty, Locality
from gateway.core.queues.registry import queue_policy

BELOW = {one: tuple(each for each in PriorityClass if each > one) for one in PriorityClass}
_SLACK = 64
_AGAIN_FROM = -(2**62)  # calls that ask again draw from here: before every first-time call


class _Heads:
    """Implements ``Heads``: looked for when asked for, once."""

    __slots__ = ("_found", "_free", "_load", "_passes_over", "_queues", "oldest_s")

    def __init__(
        self,
        waiting: WaitingCalls,
        free: Set[str],
        passes_over: Callable[[QueuedCall], bool] | None,
    ) -> None:
        self._queues = waiting.queues
        self._load = waiting.load.by_class
        self.oldest_s = waiting.oldest_s
        self._free = free
        self._passes_over = passes_over
        self._found: dict[PriorityClass, QueuedCall | None] = {}

    def get(self, klass: PriorityClass, /) -> QueuedCall | None:
        found = self._found
        if klass not in found:
            found[klass] = None
            if self._load[klass].calls:
                found[klass] = self._queues[klass].head(self._free, self._passes_over)
        return found[klass]


class WaitingCalls:
    def __init__(self, config: PoolConfig) -> None:
        self.load = QueueLoad(config.weights)
        self.calls: dict[str, QueuedCall] = {}  # by call id
        self._order = ClassOrder(config)
        self.expiry = ExpiryHeap()
        self.queues = self._new_queues(config)
        self._arrivals: dict[PriorityClass, deque[QueuedCall]] = {
            klass: deque() for klass in PriorityClass
        }
        self._fresh_sequence = count()
        self._again_sequence = count(_AGAIN_FROM)

    def __len__(self) -> int:
        return len(self.calls)

    def is_plain(self, klass: PriorityClass) -> bool:
        return self._order.is_plain(klass)

    def __contains__(self, call_id: str) -> bool:
        return call_id in self.calls

    def queue(self, klass: PriorityClass) -> CallQueue:
        return self.queues[klass]

    def add(
        self,
        ticket: Ticket,
        *,
        cost: float,
        now_s: float,
        wait_limit_s: float,
        booked: bool = False,
        follow_up: bool = False,
    ) -> QueuedCall:
        """Each stay in the queue has the wait limit of its class; the deadline bounds them all."""
        assert ticket.call_id not in self.calls
        call = QueuedCall(
            ticket=ticket,
            lane=lane_of(ticket),
            sequence=next(self._again_sequence if ticket.again else self._fresh_sequence),
            queued_s=now_s,
            expires_s=min(now_s + wait_limit_s, ticket.deadline_s),
            cost=cost,
            booked=booked,
        )
        self.calls[ticket.call_id] = call
        self._note_arrival(call)
        self.queues[ticket.klass].push(call)
        self.expiry.add(call)
        self.load.add(call, follow_up=follow_up)
        return call

    def discard(self, call_id: str) -> QueuedCall | None:
        """The call leaves without a slot. None: it does not wait."""
        call = self.calls.get(call_id)
        if call is not None:
            self.queues[call.ticket.klass].discard(call)
            self._forget(call)
        return call

    def choose(
        self,
        free: Set[str],
        now_s: float,
        held: Set[PriorityClass] = frozenset(),
        passes_over: Callable[[QueuedCall], bool] | None = None,
    ) -> Choice | None:
        """The call that goes next, given the replicas that are open. It stays in the queue."""
        heads = _Heads(self, free, passes_over)
        return self._order.choose(heads, now_s, held)

    def oldest_s(self, klass: PriorityClass) -> float | None:
        """Since when a call of the class has waited, at least."""
        arrivals = self._arrivals[klass]
        while arrivals and self.calls.get(arrivals[0].ticket.call_id) is not arrivals[0]:
            arrivals.popleft()
        return arrivals[0].queued_s if arrivals else None

    def nearer(self, choice: Choice, locality: Locality) -> tuple[Choice, Liberty]:
        """The same choice, or a call of the same class that a free replica runs from its cache."""
        queue = self.queues[choice.call.ticket.klass]
        call, liberty = queue.nearer(choice.call, locality)
        if call is choice.call:
            return choice, liberty
        return Choice(call, choice.rule, choice.call), liberty

    def dispatch(self, choice: Choice) -> Charge:
        call = choice.call
        charge = self.queues[call.ticket.klass].dispatch(call, choice.before)
        self._forget(call)
        batch_waits = self.load.by_class[PriorityClass.BATCH].calls > 0
        self._order.dispatched(choice, batch_waits=batch_waits)
        return charge

    def let_through(self, choice: Choice) -> Charge:
        """``add`` and ``dispatch`` of a call that comes while nothing waits: only the queue of its
        class and the class order have something to remember of it."""
        charge = self.queues[choice.call.ticket.klass].let_through(choice.call)
        self._order.dispatched(choice, batch_waits=False)
        return charge

    def correct_batch_share(self, more: float) -> None:
        """A call that batch was owed costs so much more than it was charged."""
        self._order.corrected(more)

    def charge_below(self, ticket: Ticket, cost: float) -> list[tuple[PriorityClass, Charge]]:
        """What the tenant receives in its class counts in its lower classes too."""
        charged = []
        for klass in BELOW[ticket.klass]:
            charge = self.queues[klass].charge_from_above(ticket.tenant, cost)
            if charge is not None:
                charged.append((klass, charge))
        return charged

    def stranded(self, admitting: Set[str]) -> list[QueuedCall]:
        """Calls that no replica of ``admitting`` may run. Reads every call only if a lane is cut
        off."""
        cut_off = {
            lane
            for queue in self.queues.values()
            for lane in queue.lanes()
            if not lane.meets(admitting)
        }
        return [call for call in self.calls.values() if call.lane in cut_off] if cut_off else []

    def oldest_arrival_s(self) -> float | None:
        return min((call.ticket.arrived_s for call in self.calls.values()), default=None)

    def eligible_of_tenants(self) -> dict[str, frozenset[str] | None]:
        """Replicas that the waiting calls of each tenant may use; None = all."""
        if all(lane.eligible is None for queue in self.queues.values() for lane in queue.lanes()):
            return {tenant: None for tenant, _ in self.load.by_flow}
        union: dict[str, frozenset[str] | None] = {}
        for call in self.calls.values():
            tenant, eligible = call.ticket.tenant, call.lane.eligible
            former = union.get(tenant, frozenset())
            union[tenant] = None if former is None or eligible is None else former | eligible
        return union

    def all_ids(self) -> list[str]:
        return list(self.calls)

    def widened(self, slugs: frozenset[str]) -> None:
        for queue in self.queues.values():
            queue.widened(slugs)

    def set_weights(self, weights: dict[str, float]) -> None:
        self.load.set_weights(weights)
        for queue in self.queues.values():
            queue.set_weights(weights)

    def configure(self, config: PoolConfig) -> None:
        """Parameters of the order; the policy itself changes by ``change_policy``."""
        self._order.config = config
        self.set_weights(config.weights)

    def change_policy(self, config: PoolConfig) -> None:
        """Every waiting call moves to queues of the new policy, in its order of arrival there.
        Holds and charges of calls in flight are the caller's to renew."""
        self.queues = self._new_queues(config)
        for call in sorted(self.calls.values(), key=lambda call: call.sequence):
            self.queues[call.ticket.klass].push(call)

    def _new_queues(self, config: PoolConfig) -> dict[PriorityClass, CallQueue]:
        new_queue = queue_policy(config.queue)
        return {klass: new_queue(config.weights) for klass in PriorityClass}

    def _note_arrival(self, call: QueuedCall) -> None:
        arrivals = self._arrivals[call.ticket.klass]
        arrivals.append(call)
        if len(arrivals) > 2 * self.load.by_class[call.ticket.klass].calls + _SLACK:
            alive = [one for one in arrivals if self.calls.get(one.ticket.call_id) is one]
            self._arrivals[call.ticket.klass] = deque(alive)

    def _forget(self, call: QueuedCall) -> None:
        del self.calls[call.ticket.call_id]
        self.expiry.discard(call)
        self.load.subtract(call)


def lane_of(ticket: Ticket) -> Lane:
    if ticket.eligible is None and not ticket.excluded:
        return ANYWHERE
    return Lane(ticket.eligible, ticket.excluded)
