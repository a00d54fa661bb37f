from __future__ import annotations

from gateway.core.cost import FREE, Prices, price_microcredits, service_cost


def test_service_cost_weighs_cached_and_output_tokens() -> None:
    assert service_cost(100, 40, 10) == 60 + 4 + 20


def test_more_cached_than_input_tokens_is_not_negative() -> None:
    assert service_cost(10, 50, 0) == 1.0


def test_price_rounds_up_so_that_nothing_that_costs_is_free() -> None:
    prices = Prices(input_per_mtok=1, cached_per_mtok=0, output_per_mtok=0)
    assert price_microcredits(prices, 1, 0, 0) == 1
    assert price_microcredits(prices, 1, 1, 0) == 0
    assert price_microcredits(FREE, 1_000, 0, 1_000) == 0


def test_price_of_a_million_tokens_is_the_listed_one() -> None:
    prices = Prices(input_per_mtok=150_000, cached_per_mtok=75_000, output_per_mtok=600_000)
    assert price_microcredits(prices, 2_000_000, 1_000_000, 1_000_000) == 825_000
