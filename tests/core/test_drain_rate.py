"""Predicted wait = cost ahead / what a saturated pool dispatched per second in the last 10 s."""

from __future__ import annotations

import pytest

from gateway.core.dispatch.drain_rate import DrainRate
from tests.core.factories import BATCH, INTERACTIVE, STANDARD


def saturated(seconds: int, *, cost: float = 50.0, from_s: int = 0) -> DrainRate:
    """One call of ``cost`` a second, always with others waiting."""
    rate = DrainRate(float(from_s))
    rate.tell(float(from_s), saturated=True)
    for second in range(from_s + 1, from_s + seconds + 1):
        rate.dispatched(STANDARD, cost, float(second))
        rate.tell(float(second), saturated=True)
    return rate


def test_the_rate_is_taken_over_ten_seconds() -> None:
    assert saturated(99).tps(99.0) == pytest.approx(50.0, rel=0.06)


def test_a_young_pool_is_measured_over_its_age() -> None:
    assert saturated(5, from_s=100).tps(105.0) == pytest.approx(50.0)


def test_what_an_idle_pool_dispatches_says_nothing_of_what_it_can() -> None:
    rate = saturated(20)
    rate.tell(20.0, saturated=False)
    for second in range(21, 60):
        rate.dispatched(STANDARD, 1.0, float(second))
        rate.tell(float(second), saturated=False)
    assert rate.tps(60.0) == pytest.approx(50.0, rel=0.06)


def test_it_is_not_known_before_half_a_saturated_second() -> None:
    rate = DrainRate(0.0)
    rate.dispatched(STANDARD, 100.0, 0.0)
    assert rate.predicted_wait_s(STANDARD, 500.0, 1.0) is None
    assert rate.predicted_wait_s(STANDARD, 0.0, 1.0) == 0.0


def test_a_pool_that_stands_still_slows_down() -> None:
    rate = saturated(20)
    assert rate.tps(20.0) == pytest.approx(50.0, rel=0.06)
    assert rate.tps(60.0) == pytest.approx(50.0 * 10 / 40, rel=0.06)


def test_lower_classes_get_what_the_higher_ones_leave() -> None:
    rate = DrainRate(0.0)
    rate.tell(0.0, saturated=True)
    for step in range(1, 11):
        rate.dispatched(INTERACTIVE, 60.0, float(step))
        rate.dispatched(STANDARD, 40.0, float(step))
        rate.tell(float(step), saturated=True)
    left = [rate.left_tps(klass, 10.0) for klass in (INTERACTIVE, STANDARD, BATCH)]
    assert left == pytest.approx([100.0, 40.0, 5.0], rel=0.06)
    assert rate.predicted_wait_s(STANDARD, 80.0, 10.0) == pytest.approx(2.0, rel=0.06)


def test_memory_is_bounded() -> None:
    rate = DrainRate(0.0)
    for step in range(10_000):
        rate.dispatched(STANDARD, 1.0, step * 0.01)
        rate.tell(step * 0.01, saturated=True)
    assert len(rate._cells) <= 21
