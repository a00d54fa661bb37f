"""The rules, bounds and memory of the start-time fair queue."""

from __future__ import annotations

import random
from itertools import combinations, count

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core.queues.call import Charge, QueuedCall
from gateway.core.queues.fair_queue import StartTimeFairQueue
from gateway.core.queues.lane import ANYWHERE, Lane
from tests.core.factories import ticket

FREE = {"r0", "r1"}
_sequence = count()
_again = count(-(2**62))


def call(
    tenant: str, cost: float = 100.0, *, lane: Lane = ANYWHERE, again: bool = False
) -> QueuedCall:
    sequence = next(_again if again else _sequence)
    return QueuedCall(ticket(tenant, again=again), lane, sequence, 0.0, 1e9, cost)


def push(queue: StartTimeFairQueue, *tenants: str, cost: float = 100.0) -> None:
    for tenant in tenants:
        queue.push(call(tenant, cost))


def serve(queue: StartTimeFairQueue, free: set[str] | None = None) -> Charge:
    head = queue.head(FREE if free is None else free)
    assert head is not None
    return queue.dispatch(head)


def order(queue: StartTimeFairQueue) -> str:
    """Tenants in the order in which they leave."""
    return "".join(serve(queue).tenant for _ in range(len(queue)))


def test_flows_alternate_whatever_the_order_of_arrival() -> None:
    queue = StartTimeFairQueue({})
    push(queue, *"aaab", *"bb")
    assert order(queue) == "ababab"


def test_weight_three_gets_three_calls_for_one() -> None:
    queue = StartTimeFairQueue({"a": 3.0})
    push(queue, *"aaaaaa", *"bb")
    assert order(queue).count("a", 0, 4) == 3


def test_a_weight_changed_at_run_time_counts_from_the_next_call() -> None:
    queue = StartTimeFairQueue({})
    push(queue, *"ab" * 20)
    [serve(queue) for _ in range(10)]
    queue.set_weights({"a": 4.0})
    assert [serve(queue).tenant for _ in range(20)].count("a") in (15, 16, 17)


def test_a_call_at_an_empty_flow_is_lifted_to_the_virtual_time() -> None:
    queue = StartTimeFairQueue({})
    push(queue, *"a" * 10)
    [serve(queue) for _ in range(5)]
    push(queue, "b")
    assert queue.tags()["b"] == queue.virtual_time == 400.0


def test_a_large_first_call_goes_at_once() -> None:
    queue = StartTimeFairQueue({})
    push(queue, *"aaaa")
    serve(queue)
    push(queue, "b", cost=20_000.0)
    assert serve(queue).tenant == "b"


def test_correction_makes_the_tag_true() -> None:
    queue = StartTimeFairQueue({"a": 2.0})
    push(queue, "a", "b")
    charge = serve(queue)
    queue.correct(charge, 300.0)
    assert queue.tags()["a"] == 150.0


def test_refund_takes_back_what_was_charged_even_after_a_weight_change() -> None:
    queue = StartTimeFairQueue({"a": 2.0})
    push(queue, "a", "a", "b")
    charge = serve(queue)
    queue.set_weights({"a": 7.0})
    queue.correct(charge, 0.0)
    assert queue.tags()["a"] == 0.0
    assert serve(queue).tenant == "a"


def test_a_call_that_asks_again_goes_first_in_its_flow_without_a_lift() -> None:
    queue = StartTimeFairQueue({})
    push(queue, *"aabb")
    failed = serve(queue)
    [serve(queue) for _ in range(3)]
    push(queue, "c")
    serve(queue)
    push(queue, "a", "c")
    queue.correct(failed, 0.0)
    returning = call("a", lane=Lane(excluded=frozenset({"r0"})), again=True)
    queue.push(returning)
    assert queue.head(FREE) is returning
    assert queue.tags()["a"] == 100.0


def test_the_virtual_time_never_falls() -> None:
    queue = StartTimeFairQueue({})
    push(queue, *"aaa")
    for charge in [serve(queue), serve(queue)]:
        queue.correct(charge, 0.0)
    assert queue.tags()["a"] == 0.0
    serve(queue)
    assert queue.virtual_time == 100.0


def test_a_tag_that_falls_counts_at_once() -> None:
    queue = StartTimeFairQueue({})
    push(queue, *"bbaa")
    _, charge = serve(queue), serve(queue)
    head = queue.head(FREE)
    assert head is not None
    assert head.ticket.tenant == "b"
    queue.correct(charge, 50.0)
    assert serve(queue).tenant == "a"


class TestLanes:
    def test_a_call_for_a_busy_replica_does_not_block_the_one_behind_it(self) -> None:
        queue = StartTimeFairQueue({})
        queue.push(call("a", lane=Lane(frozenset({"r0"}))))
        push(queue, "a")
        head = queue.head({"r1"})
        assert head is not None
        assert head.lane is ANYWHERE

    def test_no_head_when_no_free_replica_is_eligible(self) -> None:
        queue = StartTimeFairQueue({})
        queue.push(call("a", lane=Lane(frozenset({"r0"}))))
        assert queue.head({"r1"}) is None

    def test_a_limited_flow_that_may_go_anywhere_is_lifted(self) -> None:
        queue = StartTimeFairQueue({})
        queue.push(call("limited", lane=Lane(frozenset({"r0"}))))
        push(queue, *"a" * 10)
        [serve(queue, {"r1"}) for _ in range(8)]
        assert queue.tags()["limited"] == 0.0
        push(queue, "limited")
        assert queue.tags()["limited"] == queue.virtual_time == 700.0

    def test_a_limited_flow_whose_replica_opens_is_lifted(self) -> None:
        queue = StartTimeFairQueue({})
        queue.push(call("limited", lane=Lane(frozenset({"r0"}))))
        push(queue, *"a" * 10)
        [serve(queue, {"r1"}) for _ in range(8)]
        queue.widened(frozenset({"r0"}))
        assert queue.tags()["limited"] == queue.virtual_time

    def test_a_narrower_call_is_not_lifted(self) -> None:
        queue = StartTimeFairQueue({})
        push(queue, *"a" * 10, *"bbb")
        charges = [serve(queue) for _ in range(4)]
        for charge in charges:
            queue.correct(charge, 0.0)
        before = queue.tags()["b"]
        queue.push(call("b", lane=Lane(frozenset({"r0"}))))
        assert queue.tags()["b"] == before


class TestMemory:
    def test_an_idle_flow_is_forgotten_once_its_tag_is_passed(self) -> None:
        queue = StartTimeFairQueue({})
        push(queue, "b", *"aaaa")
        queue.let_go(serve(queue).tenant)
        assert "b" in queue.tags()
        [serve(queue) for _ in range(3)]
        assert "b" not in queue.tags()

    def test_nothing_is_remembered_once_nothing_waits_and_nothing_runs(self) -> None:
        queue = StartTimeFairQueue({})
        push(queue, *"abcabc")
        charges = [serve(queue) for _ in range(6)]
        highest = max(queue.tags().values())
        for charge in charges:
            queue.let_go(charge.tenant)
        assert queue.tags() == {}
        assert queue.virtual_time == highest

    def test_a_stream_of_new_tenants_leaves_nothing_behind(self) -> None:
        """R21."""
        queue = StartTimeFairQueue({})
        push(queue, *"ab" * 2)
        for number in range(10_000):
            push(queue, f"t{number}", cost=1.0)
            for charge in (serve(queue), serve(queue)):
                queue.let_go(charge.tenant)
                if charge.tenant in "ab":
                    push(queue, charge.tenant)
        assert len(queue.tags()) <= 5


def normalized_gap_range(
    events: list[tuple[str, float]], weights: dict[str, float], pair: tuple[str, str]
) -> float:
    """Over every interval, the largest |W_f/w_f - W_g/w_g|: the range of the running difference."""
    gap, lowest, highest = 0.0, 0.0, 0.0
    for tenant, cost in events:
        if tenant in pair:
            sign = 1.0 if tenant == pair[0] else -1.0
            gap += sign * cost / weights[tenant]
            lowest, highest = min(lowest, gap), max(highest, gap)
    return highest - lowest


def backlogged_run(
    rng: random.Random, slots: int, weights: dict[str, float], *, guess: bool
) -> tuple[list[tuple[str, float]], dict[str, float]]:
    """Every flow always waits; calls end in random order. Returns the completions with their true
    costs, and the largest cost per flow, estimated or true."""
    queue = StartTimeFairQueue(weights)
    scale = {tenant: rng.choice([10.0, 100.0, 1000.0]) for tenant in weights}
    largest = dict.fromkeys(weights, 0.0)
    running: list[tuple[Charge, float]] = []
    done: list[tuple[str, float]] = []
    for tenant in weights:
        push(queue, tenant, tenant, cost=scale[tenant])
    for _ in range(400):
        while len(running) < slots:
            charge = serve(queue)
            actual = charge.cost * (rng.uniform(0.0, 2.0) if guess else 1.0)
            largest[charge.tenant] = max(largest[charge.tenant], charge.cost, actual)
            running.append((charge, actual))
            push(queue, charge.tenant, cost=scale[charge.tenant] * rng.uniform(0.1, 1.0))
        charge, actual = running.pop(rng.randrange(len(running)))
        queue.correct(charge, actual)
        queue.let_go(charge.tenant)
        done.append((charge.tenant, actual))
    return done, largest


flows = st.dictionaries(
    st.sampled_from("abcdef"), st.sampled_from([0.5, 1.0, 2.0, 3.0, 10.0]), min_size=2
)


class TestBounds:
    @given(seed=st.integers(0, 10**6), slots=st.integers(1, 16), weights=flows)
    @settings(max_examples=150, deadline=None)
    def test_backlogged_flows_stay_within_the_bound_of_sfq_d(
        self, seed: int, slots: int, weights: dict[str, float]
    ) -> None:
        done, largest = backlogged_run(random.Random(seed), slots, weights, guess=False)
        for f, g in combinations(weights, 2):
            per_call = largest[f] / weights[f] + largest[g] / weights[g]
            assert normalized_gap_range(done, weights, (f, g)) <= (slots + 1) * per_call + 1e-6

    @given(seed=st.integers(0, 10**6), slots=st.integers(1, 16), weights=flows)
    @settings(max_examples=150, deadline=None)
    def test_wrong_estimates_cost_at_most_the_calls_in_flight_once_more(
        self, seed: int, slots: int, weights: dict[str, float]
    ) -> None:
        done, largest = backlogged_run(random.Random(seed), slots, weights, guess=True)
        for f, g in combinations(weights, 2):
            per_call = largest[f] / weights[f] + largest[g] / weights[g]
            assert normalized_gap_range(done, weights, (f, g)) <= (2 * slots + 1) * per_call + 1e-6


class TestChargeFromAbove:
    """Charges flow down: a tenant's interactive service counts in its lower classes."""

    def test_it_delays_the_tenants_calls_here(self) -> None:
        queue = StartTimeFairQueue({})
        push(queue, *"aaabbb")
        queue.charge_from_above("a", 250.0)
        assert order(queue) == "bbbaaa"

    def test_a_tenant_without_calls_here_is_not_charged(self) -> None:
        queue = StartTimeFairQueue({})
        push(queue, "b")
        assert queue.charge_from_above("a", 250.0) is None
        assert "a" not in queue.tags()

    def test_it_is_divided_by_the_weight(self) -> None:
        queue = StartTimeFairQueue({"a": 5.0})
        push(queue, "a")
        queue.charge_from_above("a", 250.0)
        assert queue.tags()["a"] == 50.0

    def test_a_refund_gives_it_back(self) -> None:
        queue = StartTimeFairQueue({})
        push(queue, *"ab")
        charge = queue.charge_from_above("a", 250.0)
        assert charge is not None
        queue.correct(charge, 0.0)
        assert queue.tags()["a"] == 0.0
        assert order(queue) == "ab"

    def test_a_flow_that_left_and_came_back_gets_no_refund(self) -> None:
        """It was lifted since: what it was charged before is forgotten, and so is the refund."""
        queue = StartTimeFairQueue({})
        waiting = call("a")
        queue.push(waiting)
        push(queue, *"bbbbb")
        charge = queue.charge_from_above("a", 150.0)
        assert charge is not None
        queue.discard(waiting)
        [serve(queue) for _ in range(4)]
        push(queue, "a")
        lifted = queue.tags()["a"]
        queue.correct(charge, 0.0)
        assert queue.tags()["a"] == lifted == queue.virtual_time


class TestPassingOver:
    def test_the_next_flow_in_order_goes(self) -> None:
        queue = StartTimeFairQueue({})
        push(queue, *"abc")
        head = queue.head(FREE, lambda call: call.ticket.tenant == "a")
        assert head is not None
        assert head.ticket.tenant == "b"

    def test_when_all_are_passed_over_the_fair_order_decides(self) -> None:
        queue = StartTimeFairQueue({})
        push(queue, *"abc")
        head = queue.head(FREE, lambda call: True)
        assert head is not None
        assert head.ticket.tenant == "a"

    def test_it_changes_no_order(self) -> None:
        queue = StartTimeFairQueue({})
        push(queue, *"cab", *"cab")
        queue.head(FREE, lambda call: call.ticket.tenant != "b")
        assert order(queue) == "cabcab"
