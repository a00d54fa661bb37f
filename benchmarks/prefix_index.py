"""Is the prefix index bounded in memory, and what does it cost per call?

One million unique prompts of 20 blocks go to 32 replicas of unknown memory: what the process grows
by, and what was evicted. Then: hash and match of 29,000 characters. CPU time of the thread.

    python -m benchmarks.prefix_index
"""

from __future__ import annotations

import random
import statistics
import time
from pathlib import Path

from gateway.core.caches.prefix_chain import PrefixChain, chain_of, seed_of
from gateway.core.caches.prefix_index import PrefixIndex

PROMPTS = 1_000_000
BLOCKS = 20
REPLICAS = 32
PAGE_BYTES = 4_096


def resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES / 1e6


def grow(index: PrefixIndex) -> None:
    rng, before_mb = random.Random(1), resident_mb()
    for number in range(1, PROMPTS + 1):
        hashes = tuple(rng.getrandbits(64) for _ in range(BLOCKS))
        index.insert(
            f"r{number % REPLICAS}", PrefixChain(hashes, 64.0), grant_id=number, room_tokens=None
        )
        if number % (PROMPTS // 5) == 0:
            print(
                f"  {number:>9,} prompts: {len(index):>9,} blocks held,"
                f" {index.evicted:>11,} evicted,"
                f" +{resident_mb() - before_mb:.0f} MB"
            )


def hash_and_match_us(index: PrefixIndex) -> float:
    text, seed = "word " * 5_800, seed_of("model", "tenant")
    known = PrefixChain(chain_of(text, seed), 64.0)
    for number in range(REPLICAS):
        index.insert(f"r{number}", known, grant_id=number, room_tokens=None)
    times = []
    for _ in range(1_000):
        started = time.thread_time()
        chain = PrefixChain(chain_of(text, seed), 64.0)
        index.best(chain)
        index.holding(chain, chain.holder_blocks)
        for number in range(4):
            index.matched(f"r{number}", chain)
        times.append(time.thread_time() - started)
    return statistics.median(times) * 1e6


def main() -> None:
    index = PrefixIndex()
    for number in range(REPLICAS):
        index.add(f"r{number}")
    print(f"{REPLICAS} replicas, prompts of {BLOCKS} blocks, budget {index.budget_blocks:,} blocks")
    grow(index)
    print(f"  hash and match of 29,000 characters: {hash_and_match_us(index):.0f} us")


if __name__ == "__main__":
    main()
