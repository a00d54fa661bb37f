"""How far may a call go before its turn? Within bounds that hold for every arrival."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core.caches.prefix_chain import PrefixChain
from gateway.core.caches.prefix_index import PrefixIndex
from gateway.core.queues.call import QueuedCall
from gateway.core.queues.fair_queue import StartTimeFairQueue
from gateway.core.queues.lane import ANYWHERE
from gateway.core.queues.locality import MOST_PASSES, Liberty, Locality
from tests.core.factories import ticket

FREE = {"r0"}
QUANTUM = 4_096.0


def prompt(name: int) -> PrefixChain:
    return PrefixChain(tuple(100 * name + block for block in range(4)), 64.0)


def call(number: int, name: int = 0, tenant: str = "alice", cost: float = 100.0) -> QueuedCall:
    """``name`` 0: no prompt that anybody could hold."""
    prefix = prompt(name) if name else PrefixChain()
    return QueuedCall(
        ticket(tenant, call_id=f"c{number}", prefix=prefix), ANYWHERE, number, 0.0, 1e9, cost
    )


def holding(*names: int) -> PrefixIndex:
    index = PrefixIndex()
    index.add("r0")
    for name in names:
        index.insert("r0", prompt(name), grant_id=name, room_tokens=None)
    return index


@dataclass
class Server:
    """Takes calls one by one from a queue, as the dispatcher does."""

    queue: StartTimeFairQueue
    index: PrefixIndex
    look_ahead: int = 16
    quantum: float = QUANTUM

    def next(self) -> tuple[str, Liberty]:
        head = self.queue.head(FREE)
        assert head is not None
        near = Locality(self.index, self.look_ahead, self.quantum)
        chosen, liberty = head, Liberty.NONE
        if near.look(FREE):
            chosen, liberty = self.queue.nearer(head, near)
        self.queue.dispatch(chosen, head)
        return chosen.ticket.call_id, liberty


def server(*calls: QueuedCall, held: tuple[int, ...] = (1,), **settings: float) -> Server:
    queue = StartTimeFairQueue({})
    for each in calls:
        queue.push(each)
    made = Server(queue, holding(*held))
    made.look_ahead = int(settings.get("look_ahead", 16))
    made.quantum = settings.get("quantum", QUANTUM)
    return made


class TestInsideAFlow:
    def test_a_held_prompt_goes_before_the_head(self) -> None:
        assert server(call(1), call(2), call(3, 1)).next() == ("c3", Liberty.LOOK_AHEAD)

    def test_a_head_that_is_held_goes_itself(self) -> None:
        assert server(call(1, 1), call(2, 1)).next() == ("c1", Liberty.NONE)

    def test_it_looks_at_sixteen_calls_behind_the_head(self) -> None:
        calls = [call(number) for number in range(17)]
        assert server(*calls, call(17, 1)).next() == ("c0", Liberty.NONE)
        assert server(*calls[1:], call(17, 1)).next() == ("c17", Liberty.LOOK_AHEAD)

    def test_no_call_is_passed_more_than_twenty_times(self) -> None:
        it = server(call(0), *(call(number, 1) for number in range(1, 50)))
        order = [it.next()[0] for _ in range(30)]
        assert order.index("c0") == MOST_PASSES

    def test_callers_that_ask_for_order_get_it(self) -> None:
        first, second = call(1), call(2, 1)
        ordered = ticket("alice", call_id="c1", ordered=True)
        first = QueuedCall(ordered, ANYWHERE, 1, 0.0, 1e9, 100.0)
        assert server(first, second).next() == ("c1", Liberty.NONE)

    def test_a_call_that_asks_again_is_not_passed(self) -> None:
        again = QueuedCall(ticket("alice", call_id="c1", again=True), ANYWHERE, 1, 0.0, 1e9, 100.0)
        assert server(again, call(2, 1)).next() == ("c1", Liberty.NONE)

    def test_zero_is_strict(self) -> None:
        assert server(call(1), call(2, 1), look_ahead=0).next() == ("c1", Liberty.NONE)


class TestAcrossFlows:
    def test_a_held_head_of_another_tenant_goes_within_the_quantum(self) -> None:
        it = server(*(call(n, tenant="alice") for n in (1, 3)), call(2, 1, tenant="bob"))
        assert [it.next() for _ in range(2)] == [("c1", Liberty.NONE), ("c2", Liberty.NONE)]
        it.queue.push(call(4, 1, tenant="bob"))
        assert it.next() == ("c4", Liberty.QUANTUM)

    def test_beyond_the_quantum_it_waits(self) -> None:
        it = server(*(call(n, 1, tenant="bob", cost=3_000) for n in range(10)), quantum=4_096)
        for number in range(10, 14):
            it.queue.push(call(number, tenant="alice", cost=3_000))
        assert [it.next()[0] for _ in range(5)] == ["c0", "c10", "c1", "c2", "c11"]

    def test_zero_is_strict(self) -> None:
        it = server(*(call(n, tenant="alice") for n in (1, 3)), quantum=0)
        it.next()
        it.queue.push(call(4, 1, tenant="bob"))
        it.next()
        it.queue.push(call(5, 1, tenant="bob"))
        assert it.next() == ("c3", Liberty.NONE)


@pytest.mark.parametrize("tenants", [4, 16, 64])
def test_who_asks_for_less_than_its_share_waits_for_nobodys_quantum(tenants: int) -> None:
    """The others always wait, and every prompt of theirs is held."""
    it = server(
        *(
            call(100 * n + tenant, tenant, f"t{tenant}")
            for tenant in range(1, tenants + 1)
            for n in range(50)
        ),
        held=tuple(range(1, tenants + 1)),
        quantum=4_096,
    )
    for light in range(10):
        for _ in range(2 * tenants):
            it.next()
        it.queue.push(call(10**6 + light, tenant="light"))
        passed = next(n for n in range(10**6) if it.next()[0] == f"c{10**6 + light}")
        assert passed <= 1


@settings(max_examples=60, deadline=None)
@given(
    quantum=st.sampled_from([0.0, 500.0, 4_096.0]),
    look_ahead=st.sampled_from([0, 16]),
    costs=st.lists(st.floats(1, 1_000), min_size=3, max_size=3),
    held=st.sets(st.integers(1, 9), max_size=4),
    names=st.lists(st.integers(0, 9), min_size=30, max_size=120),
)
def test_backlogged_tenants_never_differ_by_more_than_two_u_plus_q(
    quantum: float, look_ahead: int, costs: list[float], held: set[int], names: list[int]
) -> None:
    """|W_f - W_g| <= 2(U + Q): U the largest cost of a call, over every interval in which both
    wait."""
    queue, tenants = StartTimeFairQueue({}), ("alice", "bob", "carol")
    for number, name in enumerate(names):
        for place, tenant in enumerate(tenants):
            queue.push(call(3 * number + place, name, tenant, costs[place]))
    it = Server(queue, holding(*held), look_ahead, quantum)
    served = dict.fromkeys(tenants, 0.0)
    left = dict.fromkeys(tenants, len(names))
    history = [dict(served)]
    while all(left.values()):
        tenant = tenants[int(it.next()[0][1:]) % 3]
        served[tenant] += costs[tenants.index(tenant)]
        left[tenant] -= 1
        history.append(dict(served))
    bound = 2 * (max(costs) + quantum) + 1e-6
    for one, other in (("alice", "bob"), ("bob", "carol"), ("alice", "carol")):
        differences = [moment[one] - moment[other] for moment in history]
        assert max(differences) - min(differences) <= bound


def test_locality_ignoring_fairness_breaks_the_bound() -> None:
    """The bound is worth something: an endless quantum serves one tenant alone."""
    it = server(*(call(n, 1, tenant="bob", cost=1_000) for n in range(50)), quantum=1e9)
    for number in range(50, 100):
        it.queue.push(call(number, tenant="alice", cost=1_000))
    assert [it.next()[0] for _ in range(2)] == ["c0", "c50"]  # each newcomer's first call
    assert all(it.next()[0] in {f"c{n}" for n in range(50)} for _ in range(49))


@pytest.mark.parametrize("free", [5, 50])
def test_with_many_free_replicas_the_policy_finds_the_holder(free: int) -> None:
    index = holding(1)
    near = Locality(index, 16, QUANTUM)
    assert not near.look({f"r{number}" for number in range(free)})
