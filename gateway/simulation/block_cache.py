"""Which KV blocks does an engine hold, and which prefixes can be reused?

Like vLLM: a block belongs to the sequences that refer to it; a full block whose content is known
is found by its hash; when nobody refers to a block it stays until it is the least recently used
and room is needed. A sequence's last blocks are evicted before its first.

Invariants: referenced + idle = total; a block that is referenced is never evicted.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence


class BlockCache:
    def __init__(self, total_blocks: int) -> None:
        self.total_blocks = total_blocks
        self.evictions = 0
        self._references = [0] * total_blocks
        self._hash_of: dict[int, int] = {}
        self._block_of: dict[int, int] = {}
        self._idle: OrderedDict[int, None] = OrderedDict.fromkeys(range(total_blocks))

    @property
    def idle_blocks(self) -> int:
        return len(self._idle)

    @property
    def used_ratio(self) -> float:
        """0..1: blocks that running sequences refer to."""
        return 1.0 - len(self._idle) / self.total_blocks

    def match(self, hashes: Sequence[int]) -> list[int]:
        """The longest run of leading blocks that are held now."""
        found: list[int] = []
        for block_hash in hashes:
            block = self._block_of.get(block_hash)
            if block is None:
                break
            found.append(block)
        return found

    def acquire(self, matched: Sequence[int], new_blocks: int) -> list[int] | None:
        """Refers to the matched blocks and to ``new_blocks`` empty ones; None = no room, no
        change."""
        revived = sum(self._references[block] == 0 for block in matched)
        if new_blocks > len(self._idle) - revived:
            return None
        for block in matched:
            if self._references[block] == 0:
                del self._idle[block]
            self._references[block] += 1
        return [*matched, *(self._take() for _ in range(new_blocks))]

    def publish(self, block: int, block_hash: int) -> None:
        """The block is full and its content is known; an equal block that is known already wins."""
        if block_hash not in self._block_of and block not in self._hash_of:
            self._block_of[block_hash] = block
            self._hash_of[block] = block_hash

    def release(self, blocks: Sequence[int]) -> None:
        """Drops one reference to each block of a sequence, given in the order of its tokens."""
        for block in reversed(blocks):
            self._references[block] -= 1
            assert self._references[block] >= 0
            if self._references[block] == 0:
                self._idle[block] = None
                if block not in self._hash_of:
                    self._idle.move_to_end(block, last=False)

    def _take(self) -> int:
        block, _ = self._idle.popitem(last=False)
        known = self._hash_of.pop(block, None)
        if known is not None:
            del self._block_of[known]
            self.evictions += 1
        self._references[block] = 1
        return block
