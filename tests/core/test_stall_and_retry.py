"""Calls in flight without tokens; the budget that keeps retries few."""

from __future__ import annotations

import random

from gateway.core.health.retry_budget import RetryBudget
from gateway.core.health.stall import StallWatch


class TestStallWatch:
    def test_an_idle_replica_never_stalls(self) -> None:
        assert StallWatch(0.0).stalls_at_s() is None

    def test_thirty_seconds_without_a_token(self) -> None:
        """G14, R12."""
        watch = StallWatch(0.0)
        watch.started(100.0)
        watch.started(110.0)
        assert watch.stalls_at_s() == 130.0
        watch.progress(125.0)
        assert watch.stalls_at_s() == 155.0

    def test_slow_tokens_get_twenty_token_times(self) -> None:
        watch = StallWatch(0.0)
        watch.started(0.0)
        assert watch.stalls_at_s(tpot_p99_s=2.0) == 40.0

    def test_the_clock_starts_when_it_becomes_busy(self) -> None:
        watch = StallWatch(0.0)
        watch.started(0.0)
        watch.ended()
        assert watch.stalls_at_s() is None
        watch.started(500.0)
        assert watch.stalls_at_s() == 530.0


class TestRetryBudget:
    def test_ten_retries_then_one_for_ten_calls(self) -> None:
        budget = RetryBudget()
        assert [budget.try_spend() for _ in range(11)] == [True] * 10 + [False]
        for _ in range(9):
            budget.call_started()
        assert not budget.try_spend()
        budget.call_started()
        assert budget.try_spend()

    def test_attempts_stay_within_one_tenth_and_ten(self) -> None:
        """G15, R9, row 63: a pool that fails every call for 30 s at 100 calls/s."""
        budget, attempts = RetryBudget(), 0
        for _ in range(3_000):
            budget.call_started()
            attempts += 1
            while budget.try_spend():
                attempts += 1
        assert attempts <= 1.10 * 3_000 + 10

    def test_quiet_times_save_up_no_more_than_ten(self) -> None:
        budget, rng = RetryBudget(), random.Random(1)
        for _ in range(10_000):
            budget.call_started()
            assert budget.retries_left <= 10
            if rng.random() < 0.01:
                budget.try_spend()
