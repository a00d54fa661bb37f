"""A refused call is told when its turn would come, and finds its place then."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from gateway.core.dispatch.bookings import Bookings
from gateway.core.dispatch.effects import Ticket
from gateway.core.queues.call import QueuedCall
from gateway.core.queues.lane import ANYWHERE
from tests.core.factories import BATCH, INTERACTIVE, STANDARD, ticket

RATE_TPS = 1_000.0
_numbers = count(1)


def asked(number: int | None = None, **changes: Any) -> Ticket:
    return ticket(prompt_hash=next(_numbers) if number is None else number, **changes)


def book(bookings: Bookings, one: Ticket, now_s: float = 0.0, *, cost: float = 800.0) -> float:
    """At 1,000 tokens a second, 0.8 of them promised: a call of 800 takes one second."""
    call = QueuedCall(one, ANYWHERE, 0, now_s, 1e9, cost)
    return bookings.book(call, now_s, free_s=now_s, rate_tps=RATE_TPS, longest_s=60.0)


def test_each_refusal_is_told_a_later_time() -> None:
    bookings = Bookings()
    told = [book(bookings, asked()) for _ in range(10)]
    assert told[1:] == pytest.approx([number / 1.1 for number in range(2, 11)])
    assert told[0] == 1.0


def test_backlog_over_rate_tells_everybody_the_same_and_that_is_wrong() -> None:
    naive = {round(800.0 / RATE_TPS, 3) for _ in range(10)}
    assert len(naive) == 1
    bookings = Bookings()
    assert len({round(book(bookings, asked()), 3) for _ in range(10)}) == 10


def test_what_is_promised_beyond_a_minute_is_told_so_and_not_booked() -> None:
    bookings = Bookings()
    told = [book(bookings, asked()) for _ in range(200)]
    assert max(told[:50]) <= 50.0
    assert told[-1] == 60.0
    assert len(bookings) <= 55


def test_a_return_at_its_time_takes_its_booking_once() -> None:
    bookings, one = Bookings(), asked()
    told_s = book(bookings, one)
    assert bookings.take(one, told_s)
    assert not bookings.take(one, told_s)
    assert len(bookings) == 0


def test_an_early_return_is_told_its_time_again() -> None:
    bookings, one = Bookings(), asked()
    for _ in range(5):
        book(bookings, asked())
    told_s = book(bookings, one)
    assert not bookings.take(one, 1.0)
    assert book(bookings, one, 1.0) == pytest.approx(told_s - 1.0)
    assert len(bookings) == 6


@pytest.mark.parametrize(
    "other",
    [{"tenant": "bob"}, {"key_id": "k2"}, {"klass": BATCH}, {"number": 999_999}],
    ids=lambda change: next(iter(change)),
)
def test_another_call_does_not_take_it(other: dict[str, Any]) -> None:
    bookings, one = Bookings(), asked(7)
    told_s = book(bookings, one)
    assert not bookings.take(asked(**{"number": 7, **other}), told_s)


def test_a_client_that_counts_must_count_on() -> None:
    bookings = Bookings()
    told_s = book(bookings, asked(7, retry_count=1))
    assert not bookings.take(asked(7, retry_count=1), told_s)
    assert bookings.take(asked(7, retry_count=2), told_s)


def test_a_booking_nobody_comes_for_is_void() -> None:
    """R23: nothing that is promised stays promised for ever."""
    bookings, one = Bookings(), asked()
    told_s = book(bookings, one)
    assert not bookings.take(one, 1.2 * told_s + 1.1)
    assert len(bookings) == 0
    assert bookings.cost_ahead(STANDARD, 1e9, 100.0) == 0.0


def test_what_is_booked_waits_ahead_of_newcomers() -> None:
    bookings = Bookings()
    for _ in range(10):
        book(bookings, asked())
    assert bookings.cost_ahead(STANDARD, 100.0, 0.0) == pytest.approx(8_000.0)
    assert bookings.cost_ahead(STANDARD, 4.0, 0.0) < 5_000.0
    assert bookings.cost_ahead(INTERACTIVE, 100.0, 0.0) == 0.0


def test_callers_that_never_come_back_soon_hold_up_nobody() -> None:
    bookings, now_s = Bookings(), 0.0
    for _ in range(200):
        now_s += 1.0
        book(bookings, asked(), now_s)
    assert bookings.kept_ratio < 0.1


def test_a_call_without_identity_is_told_a_time_and_not_booked() -> None:
    bookings = Bookings()
    assert book(bookings, asked(0)) == 1.0
    assert len(bookings) == 0
