"""Free slots that lower classes leave for the next interactive call: as many as it takes."""

from __future__ import annotations

import random

from gateway.core.dispatch.dispatcher import Dispatcher
from gateway.core.dispatch.effects import Usage
from gateway.core.dispatch.reserve import LATE_PART, Reserve
from tests.core.factories import BATCH, INTERACTIVE, config, dispatcher, grants, ticket

OBJECTIVE_S = 2.0
USAGE = Usage(10, 0, 5)


def told(reserve: Reserve, waited_s: float, times: int = 1) -> None:
    for _ in range(times):
        reserve.waited(waited_s, OBJECTIVE_S, slots=100, most=10)


def test_while_nobody_waits_nothing_is_kept() -> None:
    reserve = Reserve()
    told(reserve, 0.1, 1_000)
    assert reserve.slots == 0


def test_it_grows_by_what_comes_late_up_to_its_most() -> None:
    reserve = Reserve()
    told(reserve, 0.2, 20)
    assert reserve.slots == 2
    told(reserve, 0.2, 1_000)
    assert reserve.slots == 10


def test_it_rests_where_one_of_a_hundred_is_late() -> None:
    """Each slot kept halves the part that is late; a quarter is without any."""
    rng, reserve, kept = random.Random(1), Reserve(), []
    for _ in range(40_000):
        late = rng.random() < 0.25 / 2**reserve.slots
        told(reserve, 1.0 if late else 0.0)
        kept.append(reserve.slots)
    late_parts = [0.25 / 2**slots for slots in kept[10_000:]]
    assert 0.5 * LATE_PART < sum(late_parts) / len(late_parts) < 1.5 * LATE_PART


def full_pool(slots: int = 20) -> Dispatcher:
    """Interactive calls hold every slot; those that come next wait half a second."""
    pool = dispatcher(config(1, slots, unstarted_calls=100))
    for _ in range(slots):
        pool.submit(ticket("alice", INTERACTIVE, input_tokens=10, output_tokens=5), 0.0)
    for number in range(slots):
        pool.submit(ticket("alice", INTERACTIVE, input_tokens=10, output_tokens=5), 0.0)
        pool.release(number + 1, USAGE, 0.5)
    return pool


def test_lower_classes_leave_it_free() -> None:
    pool = full_pool()
    pool.submit(ticket("bulk", BATCH), 0.5)
    assert pool._running.holdback._reserve.slots == 2
    assert [grants(pool.release(number, USAGE, 0.6)) for number in (21, 22)] == [[], []]
    assert len(grants(pool.release(23, USAGE, 0.6))) == 1


def test_it_ends_with_the_holdback() -> None:
    pool = full_pool()
    pool.submit(ticket("bulk", BATCH), 0.5)
    pool.release(21, USAGE, 0.6)
    assert pool.next_wake == 3.5
    assert len(grants(pool.wake(3.5))) == 1


def test_a_pool_whose_last_free_slots_are_kept_counts_as_full() -> None:
    pool = full_pool()
    for _ in range(10):
        pool.submit(ticket("bulk", BATCH), 0.5)
    pool.release(21, USAGE, 0.6)
    assert pool._rate.saturated
