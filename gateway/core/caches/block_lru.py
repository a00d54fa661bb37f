"""Which blocks does one replica still hold, if it drops the least recently used?

Whole chains are touched: a prompt that comes again makes all its blocks recent, its last block the
oldest of them. So a block is never older than one that follows it, the end of a chain goes first,
and what is held of any chain is always its beginning.

Invariant: at most ``capacity`` blocks. Units: blocks.
"""

from __future__ import annotations

from collections import OrderedDict
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
        """Makes them the most recent; returns those that were not held."""
        blocks, new = self._blocks, []
        move = blocks.move_to_end
        for block in reversed(hashes):
            if block in blocks:
                move(block)
            else:
                blocks[block] = None
                new.append(block)
        return new

    def shrink(self) -> list[int]:
        """Drops what is beyond the capacity; returns it."""
        blocks, dropped = self._blocks, []
        for _ in range(len(blocks) - self.capacity):
            dropped.append(blocks.popitem(last=False)[0])
        self.evicted += len(dropped)
        return dropped

    def clear(self) -> list[int]:
        dropped = list(self._blocks)
        self._blocks.clear()
        return dropped
