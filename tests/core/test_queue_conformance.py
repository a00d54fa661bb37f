"""What every queue policy owes, fair or not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.queues.call import CallQueue, QueuedCall
from gateway.core.queues.lane import ANYWHERE, Lane
from gateway.core.queues.registry import QUEUES, queue_policy
from tests.core.factories import ticket

ONLY_R0 = Lane(frozenset({"r0"}))


def call(number: int, tenant: str = "a", lane: Lane = ANYWHERE) -> QueuedCall:
    return QueuedCall(ticket(tenant, call_id=f"c{number}"), lane, number, 0.0, 1e9, 10.0)


@pytest.fixture(params=QUEUES)
def queue(request: pytest.FixtureRequest) -> CallQueue:
    return QUEUES[request.param]({})


def drain(queue: CallQueue, free: set[str]) -> list[str]:
    ids = []
    while (head := queue.head(free)) is not None:
        queue.dispatch(head)
        ids.append(head.ticket.call_id)
    return ids


def test_each_call_leaves_once(queue: CallQueue) -> None:
    for number in range(20):
        queue.push(call(number, "abc"[number % 3]))
    assert sorted(drain(queue, {"r0"})) == sorted(f"c{number}" for number in range(20))
    assert len(queue) == 0


def test_calls_of_one_tenant_leave_in_order(queue: CallQueue) -> None:
    for number in range(5):
        queue.push(call(number))
    assert drain(queue, {"r0"}) == ["c0", "c1", "c2", "c3", "c4"]


def test_a_discarded_call_never_leaves(queue: CallQueue) -> None:
    calls = [call(number) for number in range(3)]
    for each in calls:
        queue.push(each)
    queue.discard(calls[1])
    assert drain(queue, {"r0"}) == ["c0", "c2"]


def test_looking_at_the_head_changes_nothing(queue: CallQueue) -> None:
    queue.push(call(1))
    assert queue.head({"r0"}) is queue.head({"r0"})
    assert len(queue) == 1


def test_only_eligible_calls_are_offered(queue: CallQueue) -> None:
    queue.push(call(1, lane=ONLY_R0))
    queue.push(call(2))
    assert drain(queue, {"r1"}) == ["c2"]
    assert queue.lanes() == {ONLY_R0: 1}


def test_an_empty_queue_has_no_head_and_no_lanes(queue: CallQueue) -> None:
    assert queue.head({"r0"}) is None
    assert queue.lanes() == {}


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=40))
def test_random_pushes_and_discards_lose_nothing(steps: list[tuple[str, bool]]) -> None:
    for policy in QUEUES.values():
        queue, left = policy({}), set()
        for number, (tenant, stays) in enumerate(steps):
            each = call(number, tenant)
            queue.push(each)
            if stays:
                left.add(each.ticket.call_id)
            else:
                queue.discard(each)
        assert set(drain(queue, {"r0"})) == left


def test_an_unknown_policy_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match="start_time_fair, fifo"):
        queue_policy("fastest")
