"""A decision must not cost more because more calls wait. Counted in function calls, not in time."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from benchmarks.decision import Bench
from gateway.core.dispatch.effects import Usage


def function_calls_per_decision(queued: int, decisions: int = 200) -> float:
    bench, calls = Bench(queued), 0

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    previous = sys.getprofile()
    sys.setprofile(count)
    try:
        for _ in range(decisions):
            bench.take(bench.pool.release(bench.running.pop(0), Usage(1_000, 200, 100), 1.0))
            bench.submit()
    finally:
        sys.setprofile(previous)
    return calls / decisions


def test_twenty_times_the_queue_costs_the_same_decision() -> None:
    short, long = function_calls_per_decision(1_000), function_calls_per_decision(20_000)
    assert long <= 1.15 * short
