"""A decision must not cost more because more calls wait, and hardly more because more tenants do.
Counted in function calls, not in time."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import pytest

from benchmarks.decision import POLICIES, Bench

FEW_REPLICAS = 20  # where calls wait, only the one with the freed slot is looked at


def function_calls_per_decision(
    queued: int, *, decisions: int = 200, warm_up: int = 300, **settings: Any
) -> float:
    bench, calls = Bench(queued, **settings), 0
    for _ in range(warm_up):
        bench.decide(bench.pop_running(), bench.ticket())

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    previous = sys.getprofile()
    sys.setprofile(count)
    for _ in range(decisions):
        ended, ticket = bench.pop_running(), bench.ticket()
        sys.setprofile(count)
        try:
            bench.decide(ended, ticket)
        finally:
            sys.setprofile(previous)
    return calls / decisions


def test_twenty_times_the_queue_costs_the_same_decision() -> None:
    short, long = (
        function_calls_per_decision(queued, replicas=FEW_REPLICAS) for queued in (500, 10_000)
    )
    assert long <= 1.15 * short


def test_a_hundred_times_the_tenants_cost_at_most_a_logarithm_more() -> None:
    """As many calls wait. From 100 to 10,000 log2 doubles: what grows is the depth of heaps, a
    small part of a decision."""
    few, many = (
        function_calls_per_decision(10_000, tenants=number, replicas=FEW_REPLICAS)
        for number in (100, 10_000)
    )
    assert many <= 1.3 * few


@pytest.mark.parametrize("routing", POLICIES)
def test_eight_times_the_replicas_cost_less_than_eight_times_the_decision(routing: str) -> None:
    """Every replica is open. What looks at all of them is one loop, not a chain of calls each."""
    few, many = (
        function_calls_per_decision(0, routing=routing, replicas=number, open_ratio=0.5)
        for number in (8, 64)
    )
    assert many <= 2.5 * few
