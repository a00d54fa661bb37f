"""Keys that change while their lines wait; memory that follows the lines."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.core.queues.call import QueuedCall
from gateway.core.queues.flow import Flow
from gateway.core.queues.lane import ANYWHERE
from gateway.core.queues.line import Line
from gateway.core.queues.tag_heap import TagHeap
from tests.core.factories import ticket


def line_with_call(name: str, sequence: int) -> Line:
    line = Line(Flow(name))
    line.append(QueuedCall(ticket(name), ANYWHERE, sequence, 0.0, 1e9, 1.0))
    return line


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.floats(0, 1000, allow_nan=False)), min_size=1, max_size=400
    )
)
def test_the_least_key_is_found_after_any_changes(changes: list[tuple[int, float]]) -> None:
    heap = TagHeap()
    lines = [line_with_call(str(number), number) for number in range(10)]
    for line in lines:
        heap.update(line)
    for number, tag in changes:
        flow = lines[number].flow
        fell, flow.tag = tag < flow.tag, tag
        if fell:
            heap.update(lines[number])
        entry = heap.least()
        assert entry is not None
        assert entry[:2] == min((line.flow.tag, place) for place, line in enumerate(lines))
    assert len(heap._entries) <= 2 * len(heap) + 64


def test_a_dropped_line_is_gone() -> None:
    heap = TagHeap()
    line = line_with_call("a", 1)
    heap.update(line)
    heap.drop(line)
    assert heap.least() is None
    assert len(heap) == 0
