"""Exact expiry, and memory that follows the calls that wait."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.core.queues.call import QueuedCall
from gateway.core.queues.expiry import ExpiryHeap
from gateway.core.queues.lane import ANYWHERE
from tests.core.factories import ticket


def call(expires_s: float, sequence: int = 0) -> QueuedCall:
    return QueuedCall(ticket(), ANYWHERE, sequence, 0.0, expires_s, 1.0)


@given(st.lists(st.tuples(st.integers(1, 50), st.booleans()), max_size=300))
def test_the_next_expiry_is_that_of_a_call_that_waits(steps: list[tuple[int, bool]]) -> None:
    heap, waiting = ExpiryHeap(), []
    for number, (expires_s, leaves) in enumerate(steps):
        each = call(float(expires_s), number)
        heap.add(each)
        waiting.append(each)
        if leaves:
            heap.discard(waiting.pop(0))
        assert heap.next_s == min((left.expires_s for left in waiting), default=None)
    assert len(heap._entries) <= 2 * len(waiting) + 65


def test_a_call_is_due_at_its_very_moment() -> None:
    heap, each = ExpiryHeap(), call(5.0)
    heap.add(each)
    assert heap.first_due(4.999999) is None
    assert heap.first_due(5.0) is each
