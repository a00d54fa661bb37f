"""Within one tenant: whose call goes next?

A tenant's share is its own to divide. Unless it says otherwise, its keys receive equal shares, and
within a key the end users that the caller names (``user``), by start-time fair queueing again, one
level below the other:

  arrival     a sub-flow without waiting calls begins at the virtual time of its level
  order       least (tag, sequence of the call that made it wait) first
  dispatch    virtual time = its tag, then tag += the estimate

A sub-flow exists only while calls of it wait, so memory follows the queue and nobody keeps credit
or debt over idleness. Estimates are not corrected at this level: errors cost the tenant's own other
keys at most one call each.

Invariants: one key and one user = first come, first served; each call leaves once. Every operation
is O(log sub-flows) amortised. Units: service tokens.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Iterator
from itertools import islice
from typing import Protocol

from gateway.core.dispatch.effects import Ticket
from gateway.core.queues.call import QueuedCall

_SLACK = 64


class Calls(Protocol):
    def __len__(self) -> int: ...

    def append(self, call: QueuedCall) -> None: ...

    def remove(self, call: QueuedCall, *, served: bool) -> None: ...

    def first(self) -> QueuedCall: ...

    def upcoming(self, number: int) -> Iterator[QueuedCall]:
        """The first calls of the sub-flow whose turn it is."""
        ...


class InOrder:
    """First come, first served."""

    __slots__ = ("_calls",)

    def __init__(self) -> None:
        self._calls: OrderedDict[str, QueuedCall] = OrderedDict()

    def __len__(self) -> int:
        return len(self._calls)

    def __iter__(self) -> Iterator[QueuedCall]:
        return iter(self._calls.values())

    def append(self, call: QueuedCall) -> None:
        self._calls[call.ticket.call_id] = call

    def remove(self, call: QueuedCall, *, served: bool) -> None:
        del self._calls[call.ticket.call_id]

    def first(self) -> QueuedCall:
        return next(iter(self._calls.values()))

    def upcoming(self, number: int) -> Iterator[QueuedCall]:
        return islice(self._calls.values(), number)


def of_key(ticket: Ticket) -> str:
    return ticket.key_id


def of_user(ticket: Ticket) -> str:
    return ticket.end_user


class SubFlows:
    """One level: of keys, or ``last``, of the end users of one key."""

    __slots__ = ("_heap", "_last", "_size", "_subs", "_tags", "_virtual_time")

    def __init__(self, *, last: bool = False) -> None:
        self._last = last
        self._subs: dict[str, Calls] = {}
        self._tags: dict[str, float] = {}
        self._heap: list[tuple[float, int, str]] = []
        self._virtual_time = 0.0
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def append(self, call: QueuedCall) -> None:
        name = self._name(call)
        sub = self._subs.get(name)
        if sub is None:
            sub = self._subs[name] = InOrder() if self._last else SubFlows(last=True)
            self._tags[name] = self._virtual_time
            self._push(name, call.sequence)
        sub.append(call)
        self._size += 1

    def remove(self, call: QueuedCall, *, served: bool) -> None:
        """``served``: it leaves for a slot, and its sub-flow is charged."""
        name = self._name(call)
        sub = self._subs[name]
        sub.remove(call, served=served)
        self._size -= 1
        if served:
            self._virtual_time = max(self._virtual_time, self._tags[name])
            self._tags[name] += call.cost
        if not len(sub):
            del self._subs[name], self._tags[name]
        elif served:
            self._push(name, call.sequence)

    def first(self) -> QueuedCall:
        while True:
            tag, _, name = self._heap[0]
            if self._tags.get(name) == tag:
                return self._subs[name].first()
            heapq.heappop(self._heap)

    def upcoming(self, number: int) -> Iterator[QueuedCall]:
        return self._subs[self._name(self.first())].upcoming(number)

    def _name(self, call: QueuedCall) -> str:
        return of_user(call.ticket) if self._last else of_key(call.ticket)

    def _push(self, name: str, sequence: int) -> None:
        if len(self._heap) > 2 * len(self._subs) + _SLACK:
            self._heap = [entry for entry in self._heap if self._tags.get(entry[2]) == entry[0]]
            heapq.heapify(self._heap)
        heapq.heappush(self._heap, (self._tags[name], sequence, name))
