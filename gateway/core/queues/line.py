"""The calls of one flow in one lane: those that ask again and those that hold a booking first, in
their order; then the others, first come, first served, or fairly among the keys and end users of
the tenant as soon as more than one of them waits.

Every operation is O(log sub-flows), removal from the middle included.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from gateway.core.queues.call import QueuedCall
from gateway.core.queues.flow import Flow
from gateway.core.queues.locality import MOST_PASSES, Locality
from gateway.core.queues.sub_flows import Calls, InOrder, SubFlows

if TYPE_CHECKING:
    from gateway.core.queues.tag_heap import TagHeap

Entry = tuple[float, int, int, "Line"]  # tag, sequence of the first call, tie-break, line


class Line:
    """``head`` is the call that goes first; only a line with calls has one. ``entry`` is its live
    entry in ``heap``, that of its lane; None outside. ``flow`` has its tag. ``divided``: fair
    among sub-flows."""

    __slots__ = (
        "_divided",
        "_first",
        "_fresh",
        "_owner",
        "_passes",
        "entry",
        "flow",
        "head",
        "heap",
    )

    head: QueuedCall
    heap: TagHeap

    def __init__(self, flow: Flow, *, divided: bool = True) -> None:
        self.flow = flow
        self.entry: Entry | None = None
        self._divided = divided
        self._owner: tuple[str, str] | None = None  # the one (key, user) that waits
        self._first: OrderedDict[str, QueuedCall] = OrderedDict()
        self._fresh: Calls = InOrder()
        self._passes: dict[str, int] = {}  # how often a call that waits was passed

    def __len__(self) -> int:
        return len(self._first) + len(self._fresh)

    def append(self, call: QueuedCall) -> None:
        ticket = call.ticket
        if call.goes_first:
            self._first[ticket.call_id] = call
            self.head = next(iter(self._first.values()))
            return
        owner = (ticket.key_id, ticket.end_user)
        if self._divided and self._owner is not None and owner != self._owner:
            self._divide()
        self._owner = owner
        self._fresh.append(call)
        if not self._first:
            self.head = self._fresh.first()

    def remove(self, call: QueuedCall, *, served: bool) -> bool:
        """``served``: it leaves for a slot. True while calls are left."""
        fresh = self._fresh
        if self._passes:
            self._passes.pop(call.ticket.call_id, None)
        if call.goes_first:
            del self._first[call.ticket.call_id]
        else:
            if served and call is not self.head and call is not fresh.first():
                self._count_passes(call)
            fresh.remove(call, served=served)
        if self._first:
            self.head = next(iter(self._first.values()))
        elif len(fresh):
            self.head = fresh.first()
        else:
            return False
        return True

    def near(self, locality: Locality) -> QueuedCall | None:
        """A call shortly behind the first that a free replica would run from its cache."""
        if self._first:
            return None
        bits_of, mask, all_may = locality.bits_of, locality.mask, locality.all_may_be_held
        for call in self._fresh.upcoming(locality.look_ahead_calls + 1):
            if call.ticket.ordered:
                return None
            if (all_may or bits_of(call.holder_key, 0) & mask) and locality.may_go(call):
                return call
            if self._passes and self._passes.get(call.ticket.call_id, 0) >= MOST_PASSES:
                return None
        return None

    def _count_passes(self, call: QueuedCall) -> None:
        for passed in self._fresh.upcoming(len(self._fresh)):
            if passed is call:
                return
            call_id = passed.ticket.call_id
            self._passes[call_id] = self._passes.get(call_id, 0) + 1

    def _divide(self) -> None:
        if isinstance(self._fresh, InOrder):
            divided = SubFlows()
            for call in self._fresh:
                divided.append(call)
            self._fresh = divided
