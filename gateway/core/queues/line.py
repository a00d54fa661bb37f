"""The calls of one flow in one lane: first come, first served, those that ask again before the
others.

Every operation is O(1), removal from the middle included.
"""

from __future__ import annotations

from collections import OrderedDict

from gateway.core.queues.call import QueuedCall

Entry = tuple[float, int, int, "Line"]  # tag, sequence of the first call, tie-break, line


class Line:
    """``entry`` is its live entry in the heap of its lane, None outside of one."""

    __slots__ = ("_again", "_fresh", "entry", "tenant")

    def __init__(self, tenant: str) -> None:
        self.tenant = tenant
        self.entry: Entry | None = None
        self._again: OrderedDict[str, QueuedCall] = OrderedDict()
        self._fresh: OrderedDict[str, QueuedCall] = OrderedDict()

    def __len__(self) -> int:
        return len(self._again) + len(self._fresh)

    def append(self, call: QueuedCall) -> None:
        calls = self._again if call.ticket.again else self._fresh
        calls[call.ticket.call_id] = call

    def remove(self, call: QueuedCall) -> None:
        calls = self._again if call.ticket.again else self._fresh
        del calls[call.ticket.call_id]

    def first(self) -> QueuedCall:
        return next(iter((self._again or self._fresh).values()))
