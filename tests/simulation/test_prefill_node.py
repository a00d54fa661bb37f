"""Nodes that only prefill."""

from __future__ import annotations

import pytest

from gateway.simulation.engine import EngineRequest
from gateway.simulation.engines.prefill_node import ChainCache, PrefillNode, PrefillNodeConfig

CONFIG = PrefillNodeConfig(kv_tokens=5_120)  # ten blocks


def prefill(node: PrefillNode, request: EngineRequest) -> tuple[float, int]:
    """Seconds and cached tokens."""
    node.submit(request)
    ends_s = node.begin(0.0)
    assert ends_s is not None
    return ends_s, node.complete()[0].cached_tokens


def test_prompt_of_ten_thousand_tokens_takes_as_long_as_its_formula_says() -> None:
    products = 22 * 8_192**2 * 10_000
    attention = 4 * 8_192 * 10_000**2
    expected_s = 80 * (products + attention) / (8 * 312e12 * 0.5)
    assert CONFIG.prefill_s(10_000, 0) == pytest.approx(expected_s)


def test_two_halves_cost_what_the_whole_costs() -> None:
    whole_s = CONFIG.prefill_s(10_000, 0)
    assert CONFIG.prefill_s(4_000, 0) + CONFIG.prefill_s(6_000, 4_000) == pytest.approx(whole_s)


def test_known_prefix_is_not_computed_again() -> None:
    node = PrefillNode(CONFIG)
    first_s, none = prefill(node, EngineRequest("a", 2_048, 1, (1, 2, 3, 4)))
    second_s, cached = prefill(node, EngineRequest("b", 2_060, 1, (1, 2, 3, 9)))
    assert (none, cached) == (0, 3 * 512)
    assert second_s < first_s / 3


def test_last_token_of_a_prompt_is_always_computed() -> None:
    node = PrefillNode(CONFIG)
    prefill(node, EngineRequest("a", 1_024, 1, (1, 2)))
    assert prefill(node, EngineRequest("b", 1_024, 1, (1, 2)))[1] == 512


def test_cache_is_bounded_and_forgets_the_end_of_a_chain_first() -> None:
    cache = ChainCache(4)
    cache.keep((1, 2, 3))
    cache.keep((7, 8))
    assert len(cache) == 4
    assert (cache.match((1, 2, 3)), cache.match((7, 8))) == (2, 2)


def test_prompts_are_computed_one_after_another() -> None:
    node = PrefillNode(CONFIG)
    for name in "abc":
        node.submit(EngineRequest(name, 600, 1))
    node.begin(0.0)
    assert (node.running, node.waiting) == (1, 2)
    node.cancel("b")
    node.cancel("a")
    assert node.complete() == []
    assert node.waiting == 1
