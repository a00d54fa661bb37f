"""What the index believes replicas to hold, and how it forgets."""

from __future__ import annotations

import random
import tracemalloc
from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core.caches.hit_watch import CALLS
from gateway.core.caches.prefix_chain import PrefixChain, chain_of, seed_of
from gateway.core.caches.prefix_index import BLOCK_BYTES, LEAST_CAPACITY, PrefixIndex

GRANTS = count(1)


def chain(*hashes: int, block_tokens: float = 64.0, session: int = 0) -> PrefixChain:
    return PrefixChain(hashes, block_tokens, session)


def index(*slugs: str, budget_bytes: int = 100_000 * BLOCK_BYTES) -> PrefixIndex:
    made = PrefixIndex(budget_bytes)
    for slug in slugs or ("r0", "r1"):
        made.add(slug)
    return made


def insert(
    into: PrefixIndex, slug: str, prompt: PrefixChain, room_tokens: int | None = None
) -> int:
    grant_id = next(GRANTS)
    into.insert(slug, prompt, grant_id=grant_id, room_tokens=room_tokens)
    return grant_id


def test_a_prompt_is_held_where_it_was_sent() -> None:
    known = index()
    insert(known, "r0", chain(1, 2, 3, 4))
    assert known.matched("r0", chain(1, 2, 3, 9)) == 3
    assert known.matched("r1", chain(1, 2, 3, 9)) == 0
    assert known.best(chain(1, 2, 3, 4)) == 4
    assert known.holding(chain(1, 2, 3, 9), 3) == ["r0"]


def test_the_least_recently_used_chain_goes_first_and_from_its_end() -> None:
    known = index("r0", budget_bytes=LEAST_CAPACITY * BLOCK_BYTES)
    old, new = tuple(range(100, 140)), tuple(range(200, 240))
    insert(known, "r0", chain(*old))
    insert(known, "r0", chain(*new))
    assert known.matched("r0", chain(*new)) == 40
    assert known.matched("r0", chain(*old)) == LEAST_CAPACITY - 40


def test_a_chain_that_comes_again_is_recent_as_a_whole() -> None:
    known = index("r0", budget_bytes=LEAST_CAPACITY * BLOCK_BYTES)
    first, second, third = (tuple(range(n, n + 30)) for n in (100, 200, 300))
    for hashes in (first, second, first, third):
        insert(known, "r0", chain(*hashes))
    assert known.matched("r0", chain(*first)) == 30
    assert known.matched("r0", chain(*second)) == 4


def test_capacity_is_the_memory_that_is_left_for_prompts() -> None:
    known = index("r0")
    insert(known, "r0", chain(*range(500)), room_tokens=100 * 64)
    assert known.matched("r0", chain(*range(500))) == 100


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5), st.integers(1, 40)), max_size=60))
def test_bits_and_lists_agree_and_what_is_held_is_a_beginning(
    prompts: list[tuple[int, int, int]],
) -> None:
    known = index("r0", "r1", "r2", budget_bytes=3 * LEAST_CAPACITY * BLOCK_BYTES)
    for replica, family, length in prompts:
        hashes = tuple(1_000 * family + block for block in range(length))
        insert(known, f"r{replica}", chain(*hashes))
    for slug in ("r0", "r1", "r2"):
        holding = known.get(slug)
        assert holding is not None
        held = set(holding.lru)
        assert len(held) <= LEAST_CAPACITY
        for family in range(6):
            whole = tuple(1_000 * family + block for block in range(40))
            matched = known.matched(slug, chain(*whole))
            assert held & set(whole) == set(whole[:matched])


class TestMemory:
    def test_a_hundred_thousand_unique_prompts_leave_it_flat(self) -> None:
        """R4, at a tenth: the full million is ``python -m benchmarks.prefix_index``."""
        budget = 20_000 * BLOCK_BYTES
        known, rng = index("r0", "r1", "r2", "r3", budget_bytes=budget), random.Random(1)

        def send(prompts: int) -> None:
            for number in range(prompts):
                prompt = chain(*(rng.getrandbits(64) for _ in range(4)))
                insert(known, f"r{number % 4}", prompt)

        send(30_000)
        tracemalloc.start()
        send(70_000)
        grown, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert len(known) <= known.budget_blocks
        assert known.evicted > 300_000
        assert grown < 1.5 * budget

    def test_a_removed_replica_leaves_nothing(self) -> None:
        known = index()
        insert(known, "r0", chain(1, 2, 3))
        known.remove("r0")
        assert (len(known), known.get("r0")) == (0, None)


def test_a_replica_that_is_added_again_holds_nothing() -> None:
    """R25, R6."""
    known = index()
    insert(known, "r0", chain(1, 2, 3))
    known.remove("r0")
    known.add("r0")
    assert known.matched("r0", chain(1, 2, 3)) == 0


class TestOnePrefixPerSlot:
    def slots(self, number: int = 2) -> PrefixIndex:
        known = PrefixIndex()
        known.add("llama", slots=number)
        return known

    def test_a_busy_slot_matches_nothing(self) -> None:
        known = self.slots()
        grant_id = insert(known, "llama", chain(1, 2, 3, 4))
        assert known.matched("llama", chain(1, 2, 3, 4)) == 0
        known.freed("llama", grant_id)
        assert known.matched("llama", chain(1, 2, 3, 4)) == 4

    def test_two_at_once_need_two_copies(self) -> None:
        known = self.slots()
        grants = [insert(known, "llama", chain(1, 2, 3, 4)) for _ in range(2)]
        known.freed("llama", grants[0])
        insert(known, "llama", chain(1, 2, 3, 4))
        assert known.matched("llama", chain(1, 2, 3, 4)) == 0

    def test_it_holds_as_many_prompts_as_slots(self) -> None:
        known = self.slots()
        for start in (100, 200, 300):
            known.freed("llama", insert(known, "llama", chain(*range(start, start + 8))))
        matches = [known.matched("llama", chain(*range(s, s + 8))) for s in (100, 200, 300)]
        assert matches == [0, 8, 8]

    def test_it_has_room_while_a_slot_is_empty(self) -> None:
        known = self.slots()
        known.freed("llama", insert(known, "llama", chain(1, 2, 3)))
        assert known.has_room("llama")
        known.freed("llama", insert(known, "llama", chain(7, 8, 9)))
        assert not known.has_room("llama")


class TestOverPrediction:
    def ended(self, known: PrefixIndex, reported: int, calls: int = CALLS) -> float:
        holding = known.get("r0")
        assert holding is not None
        for _ in range(calls):
            holding.watch.ended(1_000, reported)
        return holding.watch.size_ratio

    def test_persistent_over_prediction_shrinks_the_model_by_a_fifth(self) -> None:
        known = index()
        assert self.ended(known, 500) == 0.8
        insert(known, "r0", chain(*range(500)), room_tokens=100 * 64)
        assert known.matched("r0", chain(*range(500))) == 80

    def test_good_predictions_change_nothing(self) -> None:
        assert self.ended(index(), 950, 10 * CALLS) == 1.0

    def test_a_replica_that_never_reports_is_not_judged(self) -> None:
        assert self.ended(index(), 0, 10 * CALLS) == 1.0


def test_a_session_is_found_where_it_was_last() -> None:
    known = index()
    insert(known, "r0", chain(session=5))
    insert(known, "r1", chain(session=5))
    assert (known.home_of(5), known.home_of(6)) == ("r1", None)


def test_hash_and_match_of_29_000_characters_cost_a_look_up_per_doubling() -> None:
    """The time is printed by ``benchmarks.prefix_index``; here: nothing walks the blocks."""
    known = index(*(f"r{number}" for number in range(100)))
    prompt = PrefixChain(chain_of("word " * 5_800, seed_of("m", "t")), 64.0)
    for number in range(100):
        insert(known, f"r{number}", prompt)
    assert len(known.holding(prompt, prompt.holder_blocks)) == 100
    assert known.best(prompt) == len(prompt) == 113
