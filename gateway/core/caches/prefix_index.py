"""Which replica holds how much of this prompt, as far as we know from what we sent there?

For every block the index keeps the set of replicas that should hold it, as bits of one integer. A
prompt's blocks are held from the front (see ``block_lru``), so one look-up answers "who holds at
least i blocks of it", and the best match of all replicas together is found by bisection: O(log
blocks), whatever the number of replicas. A prompt is entered when it is dispatched, not when it is
answered, so that a burst follows its first call.

Capacity of a replica: what its KV memory holds beside the answers in flight, in blocks of this
prompt's size; 31,250 blocks where the memory is unknown. Too large a model costs little (a call
goes where it would have been as well off elsewhere), too small a one loses every hit. ``HitWatch``
corrects it by what the replica reports.

What is forgotten: everything of a replica that was removed, restarted or went down.

Invariants: bits and LRU lists say the same; blocks over all replicas <= ``budget_blocks``, which
bounds the memory (at most 400 bytes per block and replica, measured). The index knows hashes, no
text. Units: blocks, tokens.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

from gateway.core.caches.block_lru import BlockLru
from gateway.core.caches.hit_watch import HitWatch
from gateway.core.caches.prefix_chain import PrefixChain
from gateway.core.caches.slot_prefixes import SlotPrefixes

UNKNOWN_CAPACITY = 31_250
LEAST_CAPACITY = 64
BLOCK_BYTES = 400
BUDGET_BYTES = 256 * 1024 * 1024
MOST_SESSIONS = 65_536
USUAL_BLOCK_TOKENS = 64.0
ANY = -1  # the bits of every replica


@dataclass(slots=True, eq=False)
class Holding:
    """One replica. ``slots``: it keeps one prefix per slot, ``lru`` is then unused."""

    slug: str
    bit: int
    lru: BlockLru = field(default_factory=lambda: BlockLru(UNKNOWN_CAPACITY))
    slots: SlotPrefixes | None = None
    watch: HitWatch = field(default_factory=HitWatch)

    @property
    def blocks(self) -> int:
        return self.slots.blocks if self.slots is not None else len(self.lru)


class PrefixIndex:
    def __init__(self, budget_bytes: int = BUDGET_BYTES) -> None:
        self.budget_blocks = max(LEAST_CAPACITY, budget_bytes // BLOCK_BYTES)
        self._holdings: dict[str, Holding] = {}
        self._by_bit: dict[int, Holding] = {}  # keys 1 << n
        self.of_block: dict[int, int] = {}  # its replicas, as bits
        self.bits_of = self.of_block.get  # a block's replicas, for who looks at many blocks
        self.in_slots: list[Holding] = []  # those that keep one prefix per slot
        self._sessions: OrderedDict[int, str] = OrderedDict()

    def __len__(self) -> int:
        """Different blocks."""
        return len(self.of_block)

    @property
    def evicted(self) -> int:
        """Blocks dropped for want of room, by the replicas that are present."""
        return sum(holding.lru.evicted for holding in self._holdings.values())

    # Replicas

    def add(self, slug: str, *, slots: int | None = None) -> Holding:
        """``slots``: it keeps one prefix per slot."""
        bit = 1
        while bit in self._by_bit:
            bit <<= 1
        holding = Holding(slug, bit, slots=None if slots is None else SlotPrefixes(slots))
        self._holdings[slug] = self._by_bit[bit] = holding
        if holding.slots is not None:
            self.in_slots.append(holding)
        return holding

    def remove(self, slug: str) -> None:
        self.forget(slug)
        holding = self._holdings.pop(slug)
        del self._by_bit[holding.bit]
        if holding.slots is not None:
            self.in_slots.remove(holding)

    def forget(self, slug: str) -> None:
        """Its cache is empty now."""
        holding = self._holdings[slug]
        self._clear_bits(holding, holding.lru.clear())
        holding.watch.restarted()
        if holding.slots is not None:
            holding.slots.forget()

    def get(self, slug: str) -> Holding | None:
        return self._holdings.get(slug)

    def blocks(self, slug: str) -> int:
        """Resident there."""
        holding = self._holdings.get(slug)
        return holding.blocks if holding is not None else 0

    # Prompts

    def insert(
        self, slug: str, chain: PrefixChain, *, grant_id: int, room_tokens: int | None
    ) -> None:
        """The prompt was sent to ``slug``, whose KV memory has ``room_tokens`` for prompts."""
        holding = self._holdings.get(slug)
        if holding is None:
            return
        if chain.session:
            self._remember_session(chain.session, slug)
        if holding.slots is not None:
            holding.slots.take(grant_id, chain.hashes)
            return
        if not chain.hashes:
            return
        holding.lru.capacity = self._capacity(holding, chain, room_tokens)
        if new := holding.lru.touch(chain.hashes):
            self._set_bits(holding.bit, new)
        if dropped := holding.lru.shrink():
            self._clear_bits(holding, dropped)

    def freed(self, slug: str, grant_id: int) -> None:
        """The call has ended. Matters where the replica keeps one prefix per slot."""
        holding = self._holdings.get(slug)
        if holding is not None and holding.slots is not None:
            holding.slots.free(grant_id)

    # Questions

    def matched(self, slug: str, chain: PrefixChain) -> int:
        """Blocks of the prompt that the replica holds."""
        holding = self._holdings.get(slug)
        if holding is None or not chain.hashes:
            return 0
        if holding.slots is not None:
            return holding.slots.matched(chain.hashes)
        return self._leading(chain.hashes, holding.bit)

    def best(self, chain: PrefixChain, known: int = 0) -> int:
        """Blocks that the best holder holds; that one holds ``known`` of them is known."""
        if not chain.hashes:
            return 0
        most = self._leading(chain.hashes, ANY, known)
        if self.in_slots:
            most = max(most, *(self.matched(each.slug, chain) for each in self.in_slots))
        return most

    def _leading(self, hashes: tuple[int, ...], mask: int, known: int = 0) -> int:
        """Blocks from the front that a replica of ``mask`` holds, of which the first ``known``
        are known to be held."""
        bits_of, first, end = self.bits_of, known, len(hashes)
        if first == end or not bits_of(hashes[first], 0) & mask:
            return first
        if bits_of(hashes[-1], 0) & mask:
            return end
        while first < end:
            middle = (first + end) // 2
            if bits_of(hashes[middle], 0) & mask:
                first = middle + 1
            else:
                end = middle
        return first

    def holding(self, chain: PrefixChain, blocks: int) -> list[str]:
        """Replicas that hold at least ``blocks`` > 0 of the prompt's blocks."""
        bits = self.of_block.get(chain.hashes[blocks - 1], 0)
        slugs = []
        while bits:
            bit = bits & -bits
            bits ^= bit
            slugs.append(self._by_bit[bit].slug)
        slugs += [each.slug for each in self.in_slots if self.matched(each.slug, chain) >= blocks]
        return slugs

    def mask_of(self, slugs: Iterable[str]) -> int:
        """For ``is_held``."""
        mask = 0
        for slug in slugs:
            if (holding := self._holdings.get(slug)) is not None:
                mask |= holding.bit
        return mask

    def is_held(self, chain: PrefixChain, key: int, mask: int) -> bool:
        """``key``: the chain's holder key, not 0. A replica of ``mask`` is a holder. One
        look-up."""
        if self.of_block.get(key, 0) & mask:
            return True
        if not self.in_slots:
            return False
        return any(
            each.bit & mask and self.matched(each.slug, chain) >= chain.holder_blocks
            for each in self.in_slots
        )

    def home_of(self, session: int) -> str | None:
        """Where the last call of the session went."""
        return self._sessions.get(session)

    def has_room(self, slug: str) -> bool:
        """A prompt can be held there without giving up another. Only a replica that keeps one
        prefix per slot has so few that this matters."""
        holding = self._holdings.get(slug)
        return holding is None or holding.slots is None or holding.slots.has_empty_slot

    def _capacity(self, holding: Holding, chain: PrefixChain, room_tokens: int | None) -> int:
        blocks: float = UNKNOWN_CAPACITY
        if room_tokens is not None:
            blocks = room_tokens / (chain.block_tokens or USUAL_BLOCK_TOKENS)
        blocks *= holding.watch.size_ratio
        part = self.budget_blocks // max(1, len(self._holdings))
        return max(1, min(max(LEAST_CAPACITY, int(blocks)), part))

    def _set_bits(self, bit: int, new: list[int]) -> None:
        """``new``: the end of a prompt, in its order. Where nobody holds its first block nobody
        holds any."""
        of_block = self.of_block
        if new[0] not in of_block:
            of_block.update(dict.fromkeys(new, bit))
            return
        for block in new:
            of_block[block] = of_block.get(block, 0) | bit

    def _clear_bits(self, holding: Holding, blocks: list[int]) -> None:
        others, of_block = ~holding.bit, self.of_block
        for block in blocks:
            left = of_block[block] & others
            if left:
                of_block[block] = left
            else:
                del of_block[block]

    def _remember_session(self, session: int, slug: str) -> None:
        self._sessions[session] = slug
        self._sessions.move_to_end(session)
        if len(self._sessions) > MOST_SESSIONS:
            self._sessions.popitem(last=False)
