"""Slots that lower classes may not take while a higher one is about."""

from __future__ import annotations

from typing import Any

from gateway.core.dispatch.dispatcher import Dispatcher
from gateway.core.dispatch.effects import Ticket, Usage
from gateway.core.priority import PriorityClass
from tests.core.factories import BATCH, INTERACTIVE, STANDARD, config, dispatcher, grants, ticket

USAGE = Usage(10, 0, 5)


def send(pool: Dispatcher, klass: PriorityClass, number: int, now_s: float = 0.0) -> int:
    """How many were granted at once."""
    effects = [e for _ in range(number) for e in pool.submit(small(klass), now_s)]
    return len(grants(effects))


def small(klass: PriorityClass, tenant: str = "alice") -> Ticket:
    return ticket(tenant, klass, input_tokens=10, output_tokens=5)


def ten_slots(**changes: Any) -> Dispatcher:
    return dispatcher(config(1, 10, unstarted_calls=100, **changes))


def test_alone_batch_may_have_everything() -> None:
    assert send(ten_slots(), BATCH, 20) == 10


def test_batch_holds_seven_tenths_while_interactive_is_about() -> None:
    """R18: batch holds all slots while interactive waits."""
    pool = ten_slots()
    send(pool, INTERACTIVE, 1)
    assert send(pool, BATCH, 20) == 7


def test_standard_and_batch_together_hold_nine_tenths() -> None:
    pool = ten_slots()
    send(pool, INTERACTIVE, 1)
    pool.release(1, USAGE, 0.0)
    assert send(pool, BATCH, 5) + send(pool, STANDARD, 20) == 9


def test_without_holdback_interactive_finds_every_slot_taken() -> None:
    naive, pool = ten_slots(holdback_ratio=(1.0, 1.0, 1.0)), ten_slots()
    for each in (naive, pool):
        send(each, INTERACTIVE, 1)
        each.release(1, USAGE, 0.0)
        send(each, BATCH, 20)
    assert send(naive, INTERACTIVE, 1, 1.0) == 0
    assert send(pool, INTERACTIVE, 1, 1.0) == 1


def test_it_ends_three_seconds_after_the_higher_class_was_seen() -> None:
    pool = ten_slots()
    send(pool, INTERACTIVE, 1, 5.0)
    pool.release(1, USAGE, 5.0)
    send(pool, BATCH, 20, 5.0)
    assert pool.next_wake == 8.0
    assert len(grants(pool.wake(8.0))) == 3


def test_the_batch_share_passes_it() -> None:
    pool = ten_slots()
    send(pool, INTERACTIVE, 1)
    send(pool, BATCH, 20)
    granted = []
    for _ in range(25):
        granted += grants(pool.submit(small(INTERACTIVE), 1.0))
        granted += grants(pool.release(max([1, *(g.grant_id for g in granted)]), USAGE, 1.0))
    assert [grant.rule.split("/")[0] for grant in granted].count("batch_share") == 1


def test_nothing_is_held_in_a_pool_of_one_slot() -> None:
    pool = dispatcher(config(1, 1))
    send(pool, INTERACTIVE, 1)
    pool.release(1, USAGE, 0.0)
    assert send(pool, BATCH, 1) == 1
