"""Which blocks does one replica still hold, if it drops the least recently used?

Whole chains are touched: a prompt that comes again makes all its blocks recent, its last block the
oldest of them. So a block is never older than one that follows it, the end of a chain goes first,
and what is held of any chain is always its beginning.

Invariant: at most ``capacity`` blocks. Units: blocks. A prompt of 8 kB has 32 of them, so whole
runs of blocks are handed to the containers where one that is written in C takes them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence


class BlockLru:
    __slots__ = ("_blocks", "capacity", "evicted")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.evicted = 0  # since it exists
        self._blocks: OrderedDict[int, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._blocks)

    def __iter__(self) -> Iterator[int]:
        return iter(self._blocks)

    def touch(self, hashes: Sequence[int]) -> list[int]:
        """Makes them the most recent; returns those that were not held, in their order."""
        blocks, held = self._blocks, self._held(hashes)
        new = list(hashes[held:])
        if new:
            blocks.update(dict.fromkeys(reversed(new)))
        if held:
            deque(map(blocks.move_to_end, reversed(hashes[:held])), maxlen=0)
        return new

    def shrink(self) -> list[int]:
        """Drops what is beyond the capacity; returns it."""
        oldest = self._blocks.popitem
        beyond = range(len(self._blocks) - self.capacity)
        dropped = [oldest(last=False)[0] for _ in beyond]
        self.evicted += len(dropped)
        return dropped

    def _held(self, hashes: Sequence[int]) -> int:
        """How many, from the front."""
        blocks, end = self._blocks, len(hashes)
        if not end or hashes[0] not in blocks:
            return 0
        if hashes[-1] in blocks:
            return end
        return bisect_left(range(end), True, key=lambda place: hashes[place] not in blocks)

    def clear(self) -> list[int]:
        dropped = list(self._blocks)
        self._blocks.clear()
        return dropped
