"""Whose call goes next, so that every tenant receives service in proportion to its weight?

Start-time fair queueing with correction, for the calls of one class in one pool. The calls of a
tenant are a *flow*. Every flow f holds one number, its *start tag* F_f: the service it has
received, divided by its weight w_f, on a scale that all flows share. The queue holds one more, the
*virtual time* V.

Rules
  arrival     a call that finds its flow without waiting calls lifts it: F_f = max(F_f, V)
  order       least (F_f, sequence) first: by start tag, never by finish tag
  dispatch    V = max(V, F_h), then F_f += estimate / w_f; h is the flow whose turn it was: f, but
              for a call that goes early (``near``)
  correction  while it streams and when it ends: F_f += (actual - charged) / w_f
  refund      a call that failed before its first content costs 0: F_f falls by what it was charged
  again       a call that returns after a refund goes before the other calls of its flow, without a
              lift
  wider       a flow that waits for named replicas is lifted when it may use one more of them
  from above  what the tenant receives in a higher class of this pool counts here too: F_f +=
              charge / w_f, if it has calls queued or in flight here; never the other way
  near        a call whose prompt a free replica holds may go a little early: see ``locality``
  idle        once nothing waits and nothing runs, V = max(V, all F_f)

Why each rule. The lift makes idleness earn no credit: a tenant that comes back competes from now on
and does not catch up on the hours it was away. Start order lets a light tenant's first call go at
once however large it is; finish order would hold it back for its own size. V follows the calls that
are dispatched, not the least tag of the active flows: a tenant that can use only one busy replica
falls behind, and the least tag would stay behind with it and grant every newcomer that old credit.
Estimates may be wrong, since the length of an answer is unknown: the correction makes the tags true
at the end, and while a stream outgrows its estimate, already before. Classes are queues of their
own, so without the charge from above a tenant with interactive calls would receive its share of the
lower classes on top of them.

Invariants
  * V never falls. The tag of a waiting flow that may use every replica is below V only by
    corrections of its own calls.
  * For flows f, g that both always wait and may use the same replicas, with true estimates, over
    any interval: |W_f/w_f - W_g/w_g| <= (D + 1) (l_f/w_f + l_g/w_g); D slots, W the service of
    completed calls, l the largest cost of a call. For when f is dispatched, F_f <= F_g, so
    afterwards F_f - F_g <= l_f/w_f, and the same the other way: over an interval the difference of
    the tags moves by at most l_f/w_f + l_g/w_g. Service lags the tags by the calls in flight, at
    most D at each end. Wrong estimates move a tag by at most those calls once more: (2D + 1) in
    place of (D + 1).
  * A newcomer goes before the flows that wait, with one call. So a thousand tenants that appear at
    once delay the others by a thousand calls, once.
  * A flow without waiting calls and without calls in flight is forgotten once F_f <= V: the lift
    would give it V. What remains is bounded by the tenants seen since the queue was last empty and
    idle.
  * A decision costs O(log flows) per lane, whatever the number of calls.

Units: costs are service tokens (1 * uncached input + 0.1 * cached input + 2 * output), tags are
service tokens per unit of weight. It does not know replicas beyond their names, slots, bounds or
deadlines.

Sources: Goyal, Vin, Cheng, "Start-time Fair Queueing" (SIGCOMM'96), sections 2 and 3; Jin, Chase,
Kaur, "Interposed Proportional Sharing" (SIGMETRICS'04) for SFQ(D); Sheng et al., "Fairness in
Serving Large Language Models" (OSDI'24) for the lift and the service of tokens; Kubernetes API
Priority and Fairness (KEP-1040) for "charge a guess, correct at the end".
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Set

from gateway.core.queues.call import Charge, QueuedCall
from gateway.core.queues.flow import Flow
from gateway.core.queues.lane import ANYWHERE, Lane
from gateway.core.queues.line import Entry, Line
from gateway.core.queues.locality import MOST_FLOWS, Liberty, Locality
from gateway.core.queues.tag_heap import TagHeap

MOST_PASSED = 32


def _least(heaps: Iterable[TagHeap]) -> tuple[TagHeap, Entry] | None:
    least: tuple[TagHeap, Entry] | None = None
    for heap in heaps:
        entry = heap.least()
        if entry is not None and (least is None or entry[:2] < least[1][:2]):
            least = heap, entry
    return least


def _first_not_passed(
    heaps: Collection[TagHeap], passes_over: Callable[[QueuedCall], bool]
) -> QueuedCall | None:
    """Looks at ``MOST_PASSED`` flows: more cannot be at their share of one batch."""
    passed: list[tuple[TagHeap, Entry]] = []
    found: QueuedCall | None = None
    while len(passed) < MOST_PASSED and (least := _least(heaps)) is not None:
        heap, entry = least
        if not passes_over(entry[3].head):
            found = entry[3].head
            break
        heap.take()
        passed.append(least)
    for heap, entry in passed:
        heap.put_back(entry)
    return found


class StartTimeFairQueue:
    """Implements ``CallQueue``."""

    def __init__(self, weights: dict[str, float]) -> None:
        self._weights = weights
        self._virtual_time = 0.0
        self._flows: dict[str, Flow] = {}
        self._heaps: dict[Lane, TagHeap] = {}
        self._idle: list[tuple[float, str]] = []
        self._waiting = 0
        self._held = 0

    def __len__(self) -> int:
        return self._waiting

    @property
    def virtual_time(self) -> float:
        return self._virtual_time

    def tags(self) -> dict[str, float]:
        """F_f of every flow that is remembered."""
        return {tenant: flow.tag for tenant, flow in self._flows.items()}

    def lanes(self) -> dict[Lane, int]:
        counts = dict.fromkeys(self._heaps, 0)
        for flow in self._flows.values():
            for lane, line in flow.lines.items():
                counts[lane] += len(line)
        return counts

    def set_weights(self, weights: dict[str, float]) -> None:
        self._weights = weights

    # Calls in and out

    def push(self, call: QueuedCall) -> None:
        flow = self._flow(call.ticket.tenant)
        self._waiting += 1
        line = flow.lines.get(call.lane)
        if line is not None and not call.goes_first:
            line.append(call)  # behind the head, so the key stays
            return
        if line is None:
            line = self._new_line(flow, call)
        line.append(call)
        self._rekey(flow)

    def discard(self, call: QueuedCall) -> None:
        flow = self._flows[call.ticket.tenant]
        self._take_out(flow, call, served=False)
        self._rekey(flow)
        self._forget_if_idle(flow)

    def head(
        self, free: Set[str], passes_over: Callable[[QueuedCall], bool] | None = None
    ) -> QueuedCall | None:
        heaps = self._meeting(free)
        least = _least(heaps)
        if least is None:
            return None
        head = least[1][3].head
        if passes_over is None or not passes_over(head):
            return head
        return _first_not_passed(heaps, passes_over) or head

    def nearer(self, head: QueuedCall, locality: Locality) -> tuple[QueuedCall, Liberty]:
        """What goes in place of ``head``, which would be next."""
        if head.goes_first or head.ticket.ordered or locality.is_near(head):
            return head, Liberty.NONE
        flow = self._flows[head.ticket.tenant]
        call = flow.lines[head.lane].near(locality)
        if call is not None:
            return call, Liberty.LOOK_AHEAD
        if locality.quantum_tokens > 0 and not flow.is_new:
            call = self._near_head(flow.tag + locality.quantum_tokens, locality)
        return (head, Liberty.NONE) if call is None else (call, Liberty.QUANTUM)

    def dispatch(self, call: QueuedCall, before: QueuedCall | None = None) -> Charge:
        tenant = call.ticket.tenant
        flow = self._flows[tenant]
        self._take_out(flow, call, served=True)
        turn = flow if before is None else self._flows[before.ticket.tenant]
        return self._charged(flow, call.cost, turn.tag)

    def let_through(self, call: QueuedCall) -> Charge:
        ticket = call.ticket
        flow = self._flows.get(ticket.tenant) or self._flow(ticket.tenant)
        if not ticket.again:
            self._lift(flow)
        return self._charged(flow, call.cost, flow.tag)

    def _charged(self, flow: Flow, cost: float, turn_tag: float) -> Charge:
        """A call of the flow is dispatched in the turn of the flow with ``turn_tag``."""
        start_tag, virtual_time = flow.tag, self._virtual_time
        flow.is_new = False
        flow.held += 1
        self._held += 1
        self._advance(turn_tag)
        weight = self._weights.get(flow.tenant, 1.0)
        flow.tag += cost / weight
        return Charge(flow.tenant, weight, cost, None, start_tag, virtual_time)

    # Service

    def correct(self, charge: Charge, cost: float) -> None:
        flow, of = self._flows.get(charge.tenant), charge.flow
        if flow is not None and (of is None or (of is flow and (flow.lines or flow.held))):
            flow.tag += (cost - charge.cost) / charge.weight
            if cost < charge.cost:
                self._rekey(flow)
        charge.cost = cost

    def charge_from_above(self, tenant: str, cost: float) -> Charge | None:
        flow = self._flows.get(tenant)
        if flow is None or not (flow.lines or flow.held):
            return None
        weight = self._weights.get(tenant, 1.0)
        flow.tag += cost / weight
        return Charge(tenant, weight, cost, flow)

    def hold(self, tenant: str) -> None:
        self._flow(tenant).held += 1
        self._held += 1

    def let_go(self, tenant: str) -> None:
        flow = self._flows[tenant]
        flow.held -= 1
        self._held -= 1
        assert flow.held >= 0
        self._forget_if_idle(flow)

    def widened(self, slugs: frozenset[str]) -> None:
        for flow in self._flows.values():
            if any(lane.limited and lane.meets(slugs) for lane in flow.lines):
                self._lift(flow)

    def _meeting(self, free: Set[str]) -> Collection[TagHeap]:
        """Of the lanes whose calls a replica of ``free``, which is not empty, may run."""
        if len(self._heaps) == 1 and ANYWHERE in self._heaps:
            return self._heaps.values()
        return [heap for lane, heap in self._heaps.items() if lane.meets(free)]

    def _near_head(self, most: float, locality: Locality) -> QueuedCall | None:
        """Of the heads whose tag is at most ``most`` and that are near: the one with the least."""
        found, least = None, most
        bits_of, mask, all_may = locality.bits_of, locality.mask, locality.all_may_be_held
        for heap in self._meeting(locality.free):
            entries = heap.near_top(MOST_FLOWS)
            if not all_may:
                entries = [each for each in entries if bits_of(each[3].head.holder_key, 0) & mask]
            for entry in entries:
                line = entry[3]
                if line.entry is not entry:
                    continue
                call, tag = line.head, line.flow.tag
                if tag <= least and (found is None or tag < least) and locality.may_go(call):
                    found, least = call, tag
        return found

    # Rules that a variant may change

    def _lift(self, flow: Flow) -> None:
        flow.tag = max(flow.tag, self._virtual_time)

    def _advance(self, tag: float) -> None:
        self._virtual_time = max(self._virtual_time, tag)
        while self._idle and self._idle[0][0] <= self._virtual_time:
            _, tenant = heapq.heappop(self._idle)
            flow = self._flows.get(tenant)
            if flow is not None:
                flow.parked = False
                self._forget_if_idle(flow)

    # Bookkeeping

    def _flow(self, tenant: str) -> Flow:
        flow = self._flows.get(tenant)
        if flow is None:
            flow = self._flows[tenant] = Flow(tenant, self._virtual_time)
        return flow

    def _new_line(self, flow: Flow, call: QueuedCall) -> Line:
        lane = call.lane
        if not call.ticket.again and not any(lane.within(other) for other in flow.lines):
            flow.is_new = flow.tag <= self._virtual_time
            self._lift(flow)
        if lane not in self._heaps:
            self._heaps[lane] = TagHeap()
        line = flow.lines[lane] = Line(flow)
        line.heap = self._heaps[lane]
        return line

    def _rekey(self, flow: Flow) -> None:
        for line in flow.lines.values():
            line.heap.update(line)

    def _take_out(self, flow: Flow, call: QueuedCall, *, served: bool) -> None:
        line = flow.lines[call.lane]
        self._waiting -= 1
        if line.remove(call, served=served):
            return
        del flow.lines[call.lane]
        line.heap.drop(line)
        if not line.heap:
            del self._heaps[call.lane]

    def _forget_if_idle(self, flow: Flow) -> None:
        if not self._waiting and not self._held:
            self._end_busy_period()
        elif not flow.lines and not flow.held:
            if flow.tag <= self._virtual_time:
                self._flows.pop(flow.tenant, None)
            elif not flow.parked:
                flow.parked = True
                heapq.heappush(self._idle, (flow.tag, flow.tenant))

    def _end_busy_period(self) -> None:
        highest = max((flow.tag for flow in self._flows.values()), default=0.0)
        self._virtual_time = max(self._virtual_time, highest)
        self._flows.clear()
        self._idle.clear()
