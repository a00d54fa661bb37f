"""Keys share their tenant's turn, end users that of their key; alone, they are first come, first
served."""

from __future__ import annotations

from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from gateway.core.queues.call import QueuedCall
from gateway.core.queues.fair_queue import StartTimeFairQueue
from gateway.core.queues.flow import Flow
from gateway.core.queues.lane import ANYWHERE
from gateway.core.queues.line import Line
from gateway.core.queues.sub_flows import SubFlows
from tests.core.factories import ticket

_sequence = count()


def call(key: str, user: str = "", cost: float = 100.0, booked: bool = False) -> QueuedCall:
    asked = ticket("acme", key_id=key, end_user=user)
    return QueuedCall(asked, ANYWHERE, next(_sequence), 0.0, 1e9, cost, booked)


def line(*calls: QueuedCall) -> Line:
    made = Line(Flow("acme"))
    for each in calls:
        made.append(each)
    return made


def serve(waiting: Line) -> QueuedCall:
    first = waiting.head
    waiting.remove(first, served=True)
    return first


def served(waiting: Line, number: int) -> list[QueuedCall]:
    return [serve(waiting) for _ in range(number)]


def test_one_key_is_first_come_first_served() -> None:
    calls = [call("k") for _ in range(5)]
    assert served(line(*calls), 5) == calls


def test_a_key_with_many_calls_does_not_hold_up_another() -> None:
    waiting = line(*(call("busy") for _ in range(20)), *(call("quiet") for _ in range(5)))
    assert [each.ticket.key_id for each in served(waiting, 10)].count("quiet") == 5


def test_keys_receive_equal_service_not_equal_calls() -> None:
    waiting = line(
        *(call("large", cost=400.0) for _ in range(20)), *(call("small") for _ in range(40))
    )
    assert [each.ticket.key_id for each in served(waiting, 25)].count("large") == 5


def test_end_users_share_the_part_of_their_key() -> None:
    waiting = line(
        *(call("app", "loud") for _ in range(20)),
        *(call("app", "shy") for _ in range(10)),
        *(call("script") for _ in range(20)),
    )
    owners = [(each.ticket.key_id, each.ticket.end_user) for each in served(waiting, 20)]
    assert [owners.count(("app", "loud")), owners.count(("app", "shy"))] == [5, 5]
    assert owners.count(("script", "")) == 10


def test_a_returning_key_saves_nothing_up() -> None:
    waiting = line(*(call("a") for _ in range(30)), call("b"))
    served(waiting, 10)
    for _ in range(20):
        waiting.append(call("b"))
    assert [each.ticket.key_id for each in served(waiting, 10)].count("b") in (5, 6)


def test_a_booked_call_goes_before_the_others() -> None:
    booked = call("k", booked=True)
    assert serve(line(call("k"), call("j"), booked)) is booked


@given(st.lists(st.tuples(st.sampled_from("kj"), st.sampled_from("uv"), st.booleans())))
def test_each_call_leaves_once(steps: list[tuple[str, str, bool]]) -> None:
    waiting, expected = Line(Flow("acme")), set()
    for key, user, stays in steps:
        each = call(key, user)
        waiting.append(each)
        if stays:
            expected.add(each)
        else:
            waiting.remove(each, served=False)
    assert set(served(waiting, len(waiting))) == expected


def test_ten_thousand_keys_leave_no_memory() -> None:
    waiting = line(call("first"))
    for number in range(10_000):
        waiting.append(call(f"k{number}"))
        serve(waiting)
    assert len(waiting) == 1
    assert isinstance(waiting._fresh, SubFlows)
    assert len(waiting._fresh._heap) <= 200


def test_a_tenant_with_a_thousand_keys_receives_what_one_key_receives() -> None:
    queue = StartTimeFairQueue({})
    for number in range(1_000):
        queue.push(call(f"k{number}"))
    for _ in range(20):
        other = ticket("other", key_id="o")
        queue.push(QueuedCall(other, ANYWHERE, next(_sequence), 0.0, 1e9, 100.0))
    tenants = []
    for _ in range(20):
        head = queue.head({"r0"})
        assert head is not None
        queue.dispatch(head)
        tenants.append(head.ticket.tenant)
    assert tenants.count("other") == 10
