from __future__ import annotations

import random

from gateway.simulation.block_cache import BlockCache


def filled(cache: BlockCache, hashes: range) -> list[int]:
    blocks = cache.acquire((), len(hashes))
    assert blocks is not None
    for block, block_hash in zip(blocks, hashes, strict=True):
        cache.publish(block, block_hash)
    return blocks


def test_published_blocks_are_found_in_order_up_to_the_first_gap() -> None:
    cache = BlockCache(8)
    blocks = filled(cache, range(3))
    assert cache.match([0, 1, 2]) == blocks
    assert cache.match([0, 9, 2]) == blocks[:1]
    assert cache.match([9]) == []


def test_released_blocks_stay_until_room_is_needed() -> None:
    cache = BlockCache(4)
    cache.release(filled(cache, range(3)))
    assert cache.idle_blocks == 4
    assert len(cache.match(range(3))) == 3
    assert cache.acquire((), 4) is not None
    assert cache.match(range(3)) == []
    assert cache.evictions == 3


def test_end_of_a_sequence_is_evicted_before_its_beginning() -> None:
    cache = BlockCache(4)
    cache.release(filled(cache, range(4)))
    cache.acquire((), 2)
    assert len(cache.match(range(4))) == 2


def test_least_recently_used_sequence_goes_first() -> None:
    cache = BlockCache(4)
    cache.release(filled(cache, range(2)))
    cache.release(filled(cache, range(10, 12)))
    again = cache.acquire(cache.match(range(2)), 0)
    assert again is not None
    cache.release(again)
    cache.acquire((), 2)
    assert len(cache.match(range(2))) == 2
    assert cache.match(range(10, 12)) == []


def test_shared_blocks_are_not_evicted_while_one_sequence_uses_them() -> None:
    cache = BlockCache(3)
    first = filled(cache, range(2))
    shared = cache.acquire(cache.match(range(2)), 0)
    cache.release(first)
    assert shared == first
    assert cache.acquire((), 2) is None
    assert cache.idle_blocks == 1


def test_acquire_that_does_not_fit_changes_nothing() -> None:
    cache = BlockCache(2)
    cache.release(filled(cache, range(1)))
    assert cache.acquire(cache.match([0]), 2) is None
    assert cache.idle_blocks == 2


def test_references_and_idle_blocks_always_add_up() -> None:
    rng = random.Random(3)
    cache = BlockCache(50)
    held: list[list[int]] = []
    for _ in range(5_000):
        if held and rng.random() < 0.5:
            cache.release(held.pop(rng.randrange(len(held))))
            continue
        start = rng.randrange(30)
        matched = cache.match(range(start, start + 5))
        blocks = cache.acquire(matched, 5 - len(matched))
        if blocks is not None:
            for block, block_hash in zip(blocks, range(start, start + 5), strict=True):
                cache.publish(block, block_hash)
            held.append(blocks)
        used = {block for blocks in held for block in blocks}
        assert cache.idle_blocks == 50 - len(used)
    for blocks in held:
        cache.release(blocks)
    assert cache.used_ratio == 0.0
