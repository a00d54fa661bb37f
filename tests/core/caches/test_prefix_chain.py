"""Chains: equal beginnings, equal hashes; different tenants, none in common."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.core.caches.prefix_chain import (
    BLOCK_CHARACTERS,
    MOST_BLOCKS,
    PrefixChain,
    chain_of,
    seed_of,
    session_of,
    shared_blocks,
)

SEED = seed_of("model", "acme")


@given(st.text(max_size=1_200), st.text(max_size=1_200), st.text(max_size=1_200))
def test_two_prompts_share_the_blocks_in_which_they_are_equal(
    start: str, one: str, other: str
) -> None:
    first, second = start + one, start + other
    equal = 0
    while first[: (equal + 1) * BLOCK_CHARACTERS] == second[: (equal + 1) * BLOCK_CHARACTERS] and (
        equal + 1
    ) * BLOCK_CHARACTERS <= min(len(first), len(second)):
        equal += 1
    assert shared_blocks(chain_of(first, SEED), chain_of(second, SEED)) == equal


def test_a_block_after_a_difference_is_never_equal() -> None:
    tail = "z" * 10 * BLOCK_CHARACTERS
    one, other = chain_of("a" + tail, SEED), chain_of("b" + tail, SEED)
    assert not set(one) & set(other)


def test_tenants_and_models_have_no_hash_in_common() -> None:
    """R33: the same text of another tenant is another prompt, whatever the names."""
    text = "secret " * 1_000
    seeds = [
        seed_of(model, tenant)
        for model, tenant in (("m", "ab"), ("ma", "b"), ("m", "a"), ("m", "b"))
    ]
    chains = [set(chain_of(text, seed)) for seed in seeds]
    assert len(set(seeds)) == 4
    assert len(set.union(*chains)) == sum(map(len, chains))


def test_ambiguous_framing_of_model_and_tenant_gives_different_seeds() -> None:
    """R33."""
    assert seed_of("m1", "1t") != seed_of("m11", "t")
    assert seed_of("a2:b", "c") != seed_of("a", "2:bc")


def test_long_prompts_are_bounded() -> None:
    assert len(chain_of("x" * 2_000_000, SEED)) == MOST_BLOCKS


def test_text_beyond_ascii_is_cut_by_characters() -> None:
    text = "é漢🙂" * 400
    assert len(chain_of(text, SEED)) == len(text) // BLOCK_CHARACTERS


def test_a_short_prompt_has_no_holder() -> None:
    assert PrefixChain((1,), 64).holder_key == 0
    assert PrefixChain((1, 2, 3, 4, 5), 64).holder_key == 3


def test_tokens_are_spread_over_the_characters() -> None:
    chain = PrefixChain(chain_of("x" * 1_024, SEED)).counted(256, 1_024)
    assert chain.tokens(2) == 128


def test_a_session_is_no_block() -> None:
    assert session_of("x" * BLOCK_CHARACTERS, SEED) not in chain_of("x" * BLOCK_CHARACTERS, SEED)
