"""Leases: nobody works at a line twice at once, a dead worker's lines come back, a settled line
stays settled."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

from tests.workers.batches import Desk
from workers.models import Batch, LineState, Status
from workers.services import batches, lines
from workers.services.lines import ATTEMPTS, Lease, SettledLine
from workers.settings import WorkersSettings
from workers.usage import TokenUsage

ONE_TOKEN = TokenUsage(10, 2, 3, 1)


def settled(line_no: int, *, completed: bool = True) -> SettledLine:
    return SettledLine(line_no, completed, "part", 0, 1, ONE_TOKEN)


def numbers(found: list[lines.LeasedLine]) -> list[int]:
    return [line.line_no for line in found]


def test_lines_are_leased_in_order_and_only_once(desk: Desk) -> None:
    batch = desk.running(5)
    assert numbers(desk.lease(batch, "a", 3)) == [1, 2, 3]
    assert numbers(desk.lease(batch, "b", 3)) == [4, 5]
    assert desk.lease(batch, "a") == []


def test_workers_that_lease_at_the_same_time_share_nothing(
    desk: Desk, own: WorkersSettings
) -> None:
    """Row 68."""
    batch = desk.running(120)
    barrier = threading.Barrier(2)

    def take(token: str) -> list[int]:
        barrier.wait(10)
        try:
            return [no for _ in range(12) for no in numbers(desk.lease(batch, token, 5))]
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        a, b = pool.map(take, ["a", "b"])
    assert sorted(a + b) == list(range(1, 121))


def test_no_more_workers_than_may_are_at_one_batch(desk: Desk) -> None:
    batch = desk.running(9)
    desk.lease(batch, "a", 1)
    desk.lease(batch, "b", 1)
    assert desk.lease(batch, "c", 1) == []
    assert numbers(desk.lease(batch, "a", 1)) == [3]


def test_where_too_many_came_at_once_only_the_younger_leave(desk: Desk) -> None:
    """Each has a line in flight when the others ask: were the order not total, all would go."""
    batch = desk.running(9)
    for token in ("c", "b", "a"):
        assert len(desk.lease(batch, token, 1)) == 1
    asked = {token: len(desk.lease(batch, token, 1)) for token in ("c", "b", "a")}
    assert asked == {"c": 0, "b": 1, "a": 1}


def test_the_token_of_an_older_worker_is_less(desk: Desk) -> None:
    older, younger = (Lease.new("batch", desk.later(s)).token for s in (0.0, 0.001))
    assert older < younger
    assert len(older) == 32


def test_a_worker_that_missed_its_heartbeats_does_not_hold_a_place(desk: Desk) -> None:
    batch = desk.running(9)
    desk.lease(batch, "a", 1)
    desk.lease(batch, "b", 1)
    assert numbers(desk.lease(batch, "c", 1, after_s=31)) == [3]


def test_lines_of_a_dead_worker_come_back_when_its_lease_ends(desk: Desk) -> None:
    """Rows 65, 66."""
    batch = desk.running(2)
    desk.lease(batch, "dead")
    assert desk.lease(batch, "b", after_s=59) == []
    again = desk.lease(batch, "b", after_s=61)
    assert [(line.line_no, line.attempt, line.earlier_token) for line in again] == [
        (1, 2, "dead"),
        (2, 2, "dead"),
    ]


def test_a_renewed_lease_does_not_end(desk: Desk) -> None:
    batch = desk.running(1)
    desk.lease(batch, "a")
    lines.renew(of=Lease(batch.batch_id, "a"), now=desk.later(50))
    assert desk.lease(batch, "b", after_s=100) == []


def test_a_poisonous_line_takes_no_other_with_it(desk: Desk) -> None:
    """Row 67, M13: it kills its worker at every attempt; the others finish, it fails."""
    batch = desk.running(8)
    at_s, deaths = 0.0, 0
    while batch.status == Status.IN_PROGRESS and at_s < 1000:
        taken = desk.lease(batch, f"w{at_s}", 4, after_s=at_s)
        if any(line.custom_id == "r3" for line in taken):
            deaths += 1  # nothing of this worker is settled
        else:
            done = [settled(line.line_no) for line in taken]
            lines.settle(of=Lease(batch.batch_id, f"w{at_s}"), lines=done)
        at_s += 61
        batches.begin_closing(batch_id=batch.batch_id, now=desk.later(at_s))
        batch.refresh_from_db()
    row = batch.lines.get(custom_id="r3")
    assert (row.state, row.error_code, row.attempts) == (LineState.FAILED, lines.EXHAUSTED, 3)
    assert (batch.completed, batch.failed, deaths) == (7, 1, ATTEMPTS)


def test_a_line_that_saw_two_deaths_runs_alone(desk: Desk) -> None:
    batch = desk.running(2)
    desk.lease(batch, "w1", 1)
    desk.lease(batch, "w2", 1, after_s=61)
    assert numbers(desk.lease(batch, "w3", 5, after_s=122)) == [2]
    of = Lease(batch.batch_id, "w3")
    busy = lines.lease(of=of, most=5, may_be_alone=False, now=desk.later(122))
    assert busy == []
    (alone,) = desk.lease(batch, "w3", 5, after_s=122)
    assert (alone.line_no, alone.is_suspect) == (1, True)


def test_a_line_is_settled_once(desk: Desk) -> None:
    batch = desk.running(1)
    desk.lease(batch, "a")
    of = Lease(batch.batch_id, "a")
    assert lines.settle(of=of, lines=[settled(1)]) == 1
    assert lines.settle(of=of, lines=[settled(1)]) == 0
    batch.refresh_from_db()
    assert (batch.completed, batch.input_tokens, batch.output_tokens) == (1, 10, 3)


def test_a_worker_that_lost_its_lease_settles_nothing(desk: Desk) -> None:
    batch = desk.running(1)
    desk.lease(batch, "slow")
    desk.lease(batch, "b", after_s=61)
    assert lines.settle(of=Lease(batch.batch_id, "slow"), lines=[settled(1)]) == 0
    assert lines.settle(of=Lease(batch.batch_id, "b"), lines=[settled(1)]) == 1


def test_a_lease_that_ended_but_was_not_taken_over_still_settles(desk: Desk) -> None:
    batch = desk.running(1)
    desk.lease(batch, "slow")
    lines.take_over_expired(batch_id=batch.batch_id, now=desk.later(61))
    assert lines.settle(of=Lease(batch.batch_id, "slow"), lines=[settled(1)]) == 1


@pytest.mark.parametrize(("counts", "attempts"), [(True, 1), (False, 0)])
def test_a_line_that_is_given_back_waits_and_counts_only_as_a_failure(
    desk: Desk, counts: bool, attempts: int
) -> None:
    batch = desk.running(1)
    desk.lease(batch, "a")
    of = Lease(batch.batch_id, "a")
    lines.give_back(of=of, line_no=1, not_before=desk.later(10), counts=counts)
    assert batch.lines.get().attempts == attempts
    assert desk.lease(batch, "a", after_s=9) == []
    assert numbers(desk.lease(batch, "a", after_s=10)) == [1]


def test_a_paused_batch_gives_no_line_before_its_time(desk: Desk) -> None:
    batch = desk.running(1)
    batches.pause(batch_id=batch.batch_id, until=desk.later(30))
    batches.pause(batch_id=batch.batch_id, until=desk.later(20))
    assert desk.lease(batch, "a", after_s=29) == []
    assert numbers(desk.lease(batch, "a", after_s=30)) == [1]


def test_a_cancelled_batch_gives_no_line(desk: Desk) -> None:
    """Row 72."""
    batch = desk.running(3)
    desk.lease(batch, "a", 1)
    batches.cancel(tenant="acme", batch_id=batch.batch_id, now=desk.now)
    assert desk.lease(batch, "a") == []


def test_a_batch_out_of_time_gives_no_line(desk: Desk) -> None:
    batch = desk.running(1)
    assert desk.lease(batch, "a", after_s=86_400) == []


def test_rows_hold_no_prompt(desk: Desk) -> None:
    """S26: what a line asks is in the file alone."""
    batch = desk.running(1)
    row = batch.lines.values().get()
    assert "hi" not in {str(value) for value in row.values()}
    assert Batch.objects.values().get()["errors"] == []
