"""Which line of one lane has the least key, when keys change while their lines wait?

The heap holds one live entry per line. A key that grew
is noticed when its entry reaches the top and is put back with the new key (no work at the time of
the change); a key that fell gets a new entry at once and leaves the old one dead. Dead entries are
dropped at the top, and all of them once they outnumber the live ones.

Invariants: the live entry of a line is never above its true key; entries <= 2 * lines + 64. Every
operation is O(log lines) amortised, whatever the number of calls.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

from gateway.core.queues.line import Entry, Line

_SLACK = 64


class TagHeap:
    """``tag_of(line)`` is the present tag of a line that is not empty."""

    def __init__(self, tag_of: Callable[[Line], float]) -> None:
        self._tag_of = tag_of
        self._entries: list[Entry] = []
        self._lines = 0
        self._pushed = 0

    def __len__(self) -> int:
        """Lines."""
        return self._lines

    def update(self, line: Line) -> None:
        """After a call was added to ``line`` or its tag fell."""
        if line.entry is None:
            self._lines += 1
        elif (self._tag_of(line), line.first().sequence) >= line.entry[:2]:
            return
        line.entry = self._entry(line)
        heapq.heappush(self._entries, line.entry)
        if len(self._entries) > 2 * self._lines + _SLACK:
            self._compact()

    def drop(self, line: Line) -> None:
        """The line has no calls left."""
        line.entry = None
        self._lines -= 1

    def least(self) -> Entry | None:
        while self._entries:
            entry = self._entries[0]
            line = entry[3]
            if line.entry is not entry:
                heapq.heappop(self._entries)
            elif entry[:2] == (self._tag_of(line), line.first().sequence):
                return entry
            else:
                line.entry = self._entry(line)
                heapq.heapreplace(self._entries, line.entry)
        return None

    def first(self, number: int) -> list[Entry]:
        """The least ``number`` entries, in order."""
        taken: list[Entry] = []
        while len(taken) < number and (entry := self.least()) is not None:
            taken.append(heapq.heappop(self._entries))
        for entry in taken:
            heapq.heappush(self._entries, entry)
        return taken

    def within(self, tag: float, most: int) -> list[Line]:
        """Lines whose tag is at most ``tag``, of the ``most`` entries nearest to the top: the first
        places of the heap, which hold the least keys but for those of other branches."""
        tag_of, found = self._tag_of, []
        for entry in self._entries[:most]:
            line = entry[3]
            if entry[0] <= tag and line.entry is entry and tag_of(line) <= tag:
                found.append(line)
        return found

    def _entry(self, line: Line) -> Entry:
        self._pushed += 1
        return (self._tag_of(line), line.first().sequence, self._pushed, line)

    def _compact(self) -> None:
        self._entries = [entry for entry in self._entries if entry[3].entry is entry]
        heapq.heapify(self._entries)
