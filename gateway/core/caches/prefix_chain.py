"""Which prompts begin alike?

A prompt is cut into blocks of 256 characters, and each block is hashed together with everything
before it: two prompts have equal hashes up to block i exactly if they are equal up to there (but
for collisions of 64 bits). A last block that is not full is left out. So a chain names a prompt
without holding any of its text, and how much two prompts share is the number of leading hashes
that they share.

The chain starts from a seed of (model, salt group), each with its length before it, so that no two
pairs frame alike: equal texts of different models, adapters or tenants have no hash in common, and
nobody can find out by timing what another tenant asks.

All blocks of one chain count the same number of tokens, so that a chain of a trace, whose hashes
stand for 512 tokens each, is the same object. At most 2,048 blocks: what two longer prompts share
beyond is not seen. Units: characters, tokens.

Source: the block hashes of vLLM's automatic prefix caching; xxHash 3, 64 bits.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from functools import lru_cache

from xxhash import xxh3_64_intdigest

BLOCK_CHARACTERS = 256
MOST_BLOCKS = 2_048


@dataclass(frozen=True, slots=True)
class PrefixChain:
    """``session``: hash of what the caller says belongs together (a cache key, a marked part);
    0 = it says nothing."""

    hashes: tuple[int, ...] = ()
    block_tokens: float = 0.0
    session: int = 0

    def __len__(self) -> int:
        return len(self.hashes)

    def tokens(self, blocks: int) -> int:
        return int(blocks * self.block_tokens)

    @property
    def holder_blocks(self) -> int:
        """From how many blocks on a replica counts as a holder: half, at least two; more than there
        are when the prompt is too short to have one."""
        return max(2, (len(self.hashes) + 1) // 2)

    @property
    def holder_key(self) -> int:
        """The hash that every holder holds; 0 for a short prompt."""
        blocks = len(self.hashes)
        return self.hashes[max(2, (blocks + 1) // 2) - 1] if blocks > 1 else 0

    def counted(self, prompt_tokens: int, characters: int) -> PrefixChain:
        """The same chain once the tokens of its prompt are known."""
        if not self.hashes:
            return self
        per_character = prompt_tokens / max(characters, 1)
        return replace(self, block_tokens=per_character * BLOCK_CHARACTERS)


NO_PREFIX = PrefixChain()


@lru_cache(4_096)
def seed_of(model: str, salt_group: str) -> int:
    """``model`` as the replica knows it, with its adapter."""
    return xxh3_64_intdigest(f"{len(model)}:{model}{len(salt_group)}:{salt_group}".encode())


def chain_of(text: str, seed: int) -> tuple[int, ...]:
    """One hash per full block. Costs about 0.7 us per block."""
    blocks = min(len(text) // BLOCK_CHARACTERS, MOST_BLOCKS)
    if not blocks:
        return ()
    end = blocks * BLOCK_CHARACTERS
    hashes = []
    if text.isascii():
        raw = memoryview(text[:end].encode())
        for start in range(0, end, BLOCK_CHARACTERS):
            seed = xxh3_64_intdigest(raw[start : start + BLOCK_CHARACTERS], seed)
            hashes.append(seed)
    else:
        for start in range(0, end, BLOCK_CHARACTERS):
            block = text[start : start + BLOCK_CHARACTERS].encode("utf-8", "surrogatepass")
            seed = xxh3_64_intdigest(block, seed)
            hashes.append(seed)
    return tuple(hashes)


def session_of(name: str, seed: int) -> int:
    """A hash of its own for what the caller names, never that of a block."""
    return xxh3_64_intdigest(b"session\0" + name.encode("utf-8", "surrogatepass"), seed)


def shared_blocks(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    """Leading hashes that both have. O(log blocks): equal at i means equal before i."""
    most = min(len(one), len(other))
    return bisect_left(range(most), True, key=lambda index: one[index] != other[index])
