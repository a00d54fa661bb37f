"""Blocks that a replica holds: bounded, always the beginning of every chain, the latest kept."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.core.caches.block_lru import BlockLru

CHAINS = 12
LONGEST = 24


def chain(group: int, tail: int, length: int) -> tuple[int, ...]:
    """Two thirds of it are the group's. Equal hashes have equal hashes before them."""
    shared, own = length * 2 // 3, 10_000 * (LONGEST * tail + length)
    return tuple(1_000 * group + block + (0 if block < shared else own) for block in range(length))


chains = st.builds(chain, st.integers(0, 3), st.integers(1, CHAINS), st.integers(1, LONGEST))


@given(st.lists(chains, max_size=150), st.integers(1, 120))
def test_what_is_held_of_a_chain_is_its_beginning(
    touched: list[tuple[int, ...]], capacity: int
) -> None:
    lru, held = BlockLru(capacity), set[int]()
    for hashes in touched:
        held |= set(lru.touch(hashes))
        held -= set(lru.shrink())
        assert set(lru) == held
        assert len(lru) <= capacity
        for each in touched:
            flags = [block in held for block in each]
            assert flags == sorted(flags, reverse=True)


def test_what_was_not_touched_for_longest_goes_first() -> None:
    lru, dropped = BlockLru(160), list[int]()
    for start in range(0, 400, 20):
        lru.touch(range(start, start + 20))
        dropped += lru.shrink()
    assert sorted(dropped) == list(range(240))
    assert len(lru) == 160
    assert lru.evicted == len(dropped)


def test_a_hot_chain_outlives_any_number_of_others() -> None:
    lru = BlockLru(320)
    for start in range(1_000, 50_000, 10):
        lru.touch(range(20))
        lru.touch(range(start, start + 10))
        lru.shrink()
        assert set(range(20)) <= set(lru)


def test_a_chain_longer_than_the_capacity_is_held_from_the_front() -> None:
    lru = BlockLru(64)
    lru.touch(range(200))
    assert sorted(lru.shrink()) == list(range(64, 200))
    assert set(lru) == set(range(64))


def test_a_capacity_that_falls_drops_the_oldest() -> None:
    lru = BlockLru(100)
    for start in range(0, 100, 5):
        lru.touch(range(start, start + 5))
    lru.capacity = 40
    assert set(lru.shrink()) == set(range(60))
    assert set(lru) == set(range(60, 100))
