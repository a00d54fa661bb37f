from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.limits.book import BucketBook
from gateway.core.limits.bucket import drained
from gateway.core.limits.demands import Refused, Reservation
from gateway.core.limits.periods import day_of
from tests.stores.factories import call_id, demand

amounts = st.floats(min_value=0.5, max_value=100)


def test_level_never_drains_below_empty_nor_backwards() -> None:
    assert drained(10, 1_000, 1) == 0
    assert drained(10, -3_600, 1) == 10


def test_step_back_of_the_clock_neither_refills_nor_blocks() -> None:
    """Row 76."""
    book, asked = BucketBook(), demand("tpm", 100, 100, window_s=60)
    book.reserve(call_id(), (asked,), 10_000)
    assert isinstance(book.reserve(call_id(), (asked,), 10_000 - 3_600), Refused)
    assert isinstance(book.reserve(call_id(), (asked,), 10_060), Reservation)


def test_refill_after_a_step_forward_is_one_bucket_at_most() -> None:
    """Row 76."""
    book, asked = BucketBook(), demand("tpm", 60, 100, window_s=60)
    book.reserve(call_id(), (asked,), 0)
    assert isinstance(book.reserve(call_id(), (asked,), 7_200), Reservation)
    assert isinstance(book.reserve(call_id(), (asked,), 7_200), Refused)


@given(st.lists(st.tuples(st.floats(0, 20), amounts, st.floats(0, 2)), max_size=60))
def test_charges_never_exceed_bucket_and_refill(calls: list[tuple[float, float, float]]) -> None:
    """I2: with calls that use at most what they reserved, over every prefix of time."""
    book, now_s, charged = BucketBook(lease_s=1e9), 0.0, 0.0
    for pause_s, amount, used_ratio in calls:
        now_s += pause_s
        asked, call = demand("tpm", amount, 100, window_s=60), call_id()
        if isinstance(book.reserve(call, (asked,), now_s), Reservation):
            actual = amount * min(1.0, used_ratio)
            book.settle(call, {asked.key: actual}, now_s)
            charged += actual
        assert charged <= 100 + now_s * 100 / 60 + 1e-3


@given(amounts, amounts)
def test_waiting_as_told_is_enough_and_not_too_long(first: float, second: float) -> None:
    """G23."""
    book = BucketBook(lease_s=1e9)
    book.reserve(call_id(), (demand("tpm", first, 100, window_s=60),), 0)
    asked = (demand("tpm", second, 100, window_s=60),)
    refused = book.reserve(call_id(), asked, 0)
    if isinstance(refused, Refused):
        almost = refused.wait_s * 0.99 - 0.01
        assert almost < 0 or isinstance(book.reserve(call_id(), asked, almost), Refused)
        assert isinstance(book.reserve(call_id(), asked, refused.wait_s), Reservation)


def test_raised_and_lowered_limits_refill_at_their_own_speed() -> None:
    book = BucketBook(lease_s=1e9)
    book.reserve(call_id(), (demand("tpm", 100, 100, window_s=60),), 0)
    faster = demand("tpm", 0.001, 600, window_s=60)
    state = book.peek((faster,), 30)[0]
    assert state.held == pytest.approx(50)
    book.reserve(call_id(), (faster,), 30)
    assert book.peek((faster,), 33)[0].held == pytest.approx(20, abs=0.1)


def test_a_budget_is_fresh_once_when_its_day_ends() -> None:
    """Row 78: the period is in the key; nothing is reset, nothing granted twice."""
    book, midnight = BucketBook(), 1_798_675_200.0
    admitted = 0
    for hour in range(-6, 6):
        period = day_of(midnight + hour * 3_600 + 1).name
        asked = demand("day", 100, 100)
        key = type(asked.key)(asked.key.owner, "day", period=period)
        asked = type(asked)(key, asked.kind, asked.reason, 100, 100)
        call = call_id()
        if isinstance(book.reserve(call, (asked,), hour * 3_600), Reservation):
            admitted += 1
            book.settle(call, {key: 100}, hour * 3_600)
    assert admitted == 2


def test_pruning_forgets_what_is_empty_or_over_and_keeps_credit() -> None:
    book = BucketBook()
    day, credit, rate = demand("day", 5, 10), demand("credit", 5, 10), demand("rpm", 1, 10)
    call = call_id()
    book.reserve(call, (day, credit, rate), 0)
    book.settle(call, {day.key: 5, credit.key: 5, rate.key: 1}, 0)
    book.prune(now_s=1_000_000)
    assert set(book.buckets) == {credit.key}
    assert book.settled == {}
