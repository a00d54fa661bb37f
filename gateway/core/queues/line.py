"""The calls of one flow in one lane: those that ask again and those that hold a booking first, in
their order; then the others, first come, first served, or fairly among the keys and end users of
the tenant as soon as more than one of them waits.

Every operation is O(log sub-flows), removal from the middle included.
"""

from __future__ import annotations

from collections import OrderedDict

from gateway.core.queues.call import QueuedCall
from gateway.core.queues.sub_flows import Calls, InOrder, SubFlows

Entry = tuple[float, int, int, "Line"]  # tag, sequence of the first call, tie-break, line


class Line:
    """``entry`` is its live entry in the heap of its lane, None outside of one. ``divided``: fair
    among sub-flows."""

    __slots__ = ("_divided", "_first", "_fresh", "_owner", "entry", "tenant")

    def __init__(self, tenant: str, *, divided: bool = True) -> None:
        self.tenant = tenant
        self.entry: Entry | None = None
        self._divided = divided
        self._owner: tuple[str, str] | None = None  # the one (key, user) that waits
        self._first: OrderedDict[str, QueuedCall] = OrderedDict()
        self._fresh: Calls = InOrder()

    def __len__(self) -> int:
        return len(self._first) + len(self._fresh)

    def append(self, call: QueuedCall) -> None:
        if call.goes_first:
            self._first[call.ticket.call_id] = call
            return
        owner = (call.ticket.key_id, call.ticket.end_user)
        if self._divided and self._owner is not None and owner != self._owner:
            self._divide()
        self._owner = owner
        self._fresh.append(call)

    def remove(self, call: QueuedCall, *, served: bool) -> None:
        """``served``: it leaves for a slot."""
        if call.goes_first:
            del self._first[call.ticket.call_id]
        else:
            self._fresh.remove(call, served=served)

    def first(self) -> QueuedCall:
        return next(iter(self._first.values())) if self._first else self._fresh.first()

    def _divide(self) -> None:
        if isinstance(self._fresh, InOrder):
            divided = SubFlows()
            for call in self._fresh:
                divided.append(call)
            self._fresh = divided
