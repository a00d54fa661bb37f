"""Predicted wait = cost ahead / what was dispatched per second in the last 10 s."""

from __future__ import annotations

import pytest

from gateway.core.dispatch.drain_rate import DrainRate


def test_the_rate_is_taken_over_ten_seconds() -> None:
    rate = DrainRate(0.0)
    for second in range(100):
        rate.dispatched(50.0, float(second))
    assert rate.tps(99.0) == pytest.approx(50.0, rel=0.06)


def test_what_is_older_than_ten_seconds_is_forgotten() -> None:
    rate = DrainRate(0.0)
    rate.dispatched(1000.0, 20.0)
    assert rate.tps(30.5) == 0.0


def test_a_young_pool_is_measured_over_its_age() -> None:
    rate = DrainRate(100.0)
    rate.dispatched(100.0, 101.0)
    assert rate.tps(102.0) == 50.0


def test_predicted_wait() -> None:
    rate = DrainRate(0.0)
    assert rate.predicted_wait_s(500.0, 1.0) is None
    rate.dispatched(100.0, 1.0)
    assert rate.predicted_wait_s(500.0, 1.0) == 5.0
    assert rate.predicted_wait_s(0.0, 1.0) == 0.0


def test_memory_is_bounded() -> None:
    rate = DrainRate(0.0)
    for step in range(10_000):
        rate.dispatched(1.0, step * 0.01)
    assert len(rate._cells) <= 21
