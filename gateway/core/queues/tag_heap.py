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

from gateway.core.queues.line import Entry, Line

_SLACK = 64


class TagHeap:
    """The key of a line is the present tag of its flow, then the sequence of its head."""

    def __init__(self) -> None:
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
        elif (line.flow.tag, line.head.sequence) >= line.entry[:2]:
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
        entries = self._entries
        while entries:
            entry = entries[0]
            line = entry[3]
            if line.entry is not entry:
                heapq.heappop(entries)
                continue
            tag, sequence = line.flow.tag, line.head.sequence
            if entry[0] == tag and entry[1] == sequence:
                return entry
            self._pushed += 1
            line.entry = (tag, sequence, self._pushed, line)
            heapq.heapreplace(entries, line.entry)
        return None

    def take(self) -> Entry:
        """Takes out the entry that ``least`` has just returned, until ``put_back``."""
        return heapq.heappop(self._entries)

    def put_back(self, entry: Entry) -> None:
        heapq.heappush(self._entries, entry)

    def near_top(self, most: int) -> list[Entry]:
        """The ``most`` entries nearest to the top, dead ones among them: the first places of the
        heap, which hold the least keys but for those of other branches."""
        return self._entries[:most]

    def _entry(self, line: Line) -> Entry:
        self._pushed += 1
        return (line.flow.tag, line.head.sequence, self._pushed, line)

    def _compact(self) -> None:
        self._entries = [entry for entry in self._entries if entry[3].entry is entry]
        heapq.heapify(self._entries)
