"""When a replica is given another call: what was sent and has not begun decides, not a gauge."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.core.dispatch.dispatcher import Dispatcher
from gateway.core.dispatch.effects import ReplicaConfig, ReplicaTelemetry, Usage
from tests.core.factories import config, dispatcher, granted_ids, grants, ticket

USAGE = Usage(1_000, 0, 50)
MANY_SLOTS = 64


def pool(**changes: Any) -> Dispatcher:
    return dispatcher(config(1, MANY_SLOTS, **changes))


def send(pool: Dispatcher, number: int, input_tokens: int, now_s: float = 0.0) -> list[int]:
    """Grant ids of those that went through."""
    effects = [
        effect
        for _ in range(number)
        for effect in pool.submit(ticket(input_tokens=input_tokens), now_s)
    ]
    return [grant.grant_id for grant in grants(effects)]


def sample(waiting: int, at_s: float = 0.0, running: int | None = None) -> ReplicaTelemetry:
    return ReplicaTelemetry("r0", at_s, running=running, waiting=waiting)


def test_three_long_prompts_may_be_unstarted() -> None:
    assert send(pool(), 10, 1_000) == [1, 2, 3]


def test_a_first_event_lets_the_next_call_through() -> None:
    house = pool()
    send(house, 10, 1_000)
    assert len(grants(house.first_event(2, 0.1))) == 1
    assert house.first_event(2, 0.1) == []


def test_a_call_that_ends_without_any_event_is_no_longer_unstarted() -> None:
    house = pool()
    send(house, 10, 1_000)
    assert len(grants(house.release(1, None, 0.1, refund=True))) == 1
    assert house.view().replica_unstarted == {"r0": 3}


def test_short_prompts_fill_one_step() -> None:
    """60-token prompts: the call beyond 2,048 unstarted tokens waits."""
    assert len(send(pool(), 60, 60)) == 35


class TestOnePromptASlot:
    """Calls that begin together there end together, and slots come back in bursts."""

    def house(self, input_tokens: int, **changes: Any) -> Dispatcher:
        """Four calls run, six wait."""
        one = ReplicaConfig("r0", 4, one_prefix_per_slot=True)
        house = pool(replicas=(one,), **changes)
        calls = [ticket(input_tokens=input_tokens) for _ in range(10)]
        effects = [effect for call in calls for effect in house.submit(call, 0.0)]
        self.waiting = [call.call_id for call in calls[4:]]
        assert len(grants(effects)) == 4
        for grant_id in range(1, 5):
            house.first_event(grant_id, 0.1)
        return house

    def test_while_calls_queue_it_reads_one_at_a_time(self) -> None:
        house = self.house(200)
        assert len(grants(house.release(1, USAGE, 0.2))) == 1
        assert grants(house.release(2, USAGE, 0.2)) == []
        assert len(grants(house.first_event(5, 0.3))) == 1

    def test_short_prompts_are_read_together(self) -> None:
        for house in (self.house(60), self.house(200, slot_step_tokens=2_048)):
            assert len(grants(house.release(1, USAGE, 0.2))) == 1
            assert len(grants(house.release(2, USAGE, 0.2))) == 1

    def test_a_call_that_alone_waits_is_not_kept_from_a_free_slot(self) -> None:
        one = ReplicaConfig("r0", 4, one_prefix_per_slot=True)
        house = pool(replicas=(one,))
        assert [len(send(house, 1, 200)) for _ in range(5)] == [1, 1, 1, 1, 0]
        assert len(grants(house.release(1, USAGE, 0.2))) == 1

    def test_the_end_of_the_queue_opens_what_reads(self) -> None:
        house = self.house(200)
        house.release(1, USAGE, 0.2)
        house.release(2, USAGE, 0.2)
        left = [house.withdraw(call_id, 0.3) for call_id in self.waiting[-4:]]
        assert [len(grants(effects)) for effects in left] == [0, 0, 0, 1]


def test_the_rule_that_let_a_call_through_is_told() -> None:
    house, rules = pool(), []
    for _ in range(5):
        rules += [grant.rule for grant in grants(house.submit(ticket(input_tokens=60), 0.0))]
    assert [rule.rsplit("/", 1)[1] for rule in rules] == ["unstarted"] * 3 + ["step_budget"] * 2


def test_tokens_in_flight_stop_at_1_3_times_the_kv_capacity() -> None:
    house = dispatcher(config(replicas=(ReplicaConfig("r0", MANY_SLOTS, kv_tokens=1_000),)))
    assert len(send(house, 30, 50)) == 14  # 100 tokens each: the 14th begins at 1,300
    house.release(1, USAGE, 1.0)
    assert house.view().replica_in_flight == {"r0": 14}


def test_a_call_larger_than_the_kv_capacity_runs_alone() -> None:
    house = dispatcher(config(replicas=(ReplicaConfig("r0", MANY_SLOTS, kv_tokens=1_000),)))
    assert send(house, 2, 5_000) == [1]


def test_output_beyond_the_estimate_counts_as_kv() -> None:
    house = dispatcher(config(replicas=(ReplicaConfig("r0", MANY_SLOTS, kv_tokens=1_000),)))
    send(house, 1, 50)
    house.progress(1, 1_300, 1.0)
    assert send(house, 1, 50, 1.0) == []


class TestBrake:
    def test_a_fresh_sample_with_a_queue_stops_the_replica_for_two_seconds(self) -> None:
        house = pool()
        house.apply(sample(5), 0.5)
        assert send(house, 1, 10, 1.0) == []
        assert house.next_wake == 2.0
        assert len(grants(house.wake(2.0))) == 1

    @pytest.mark.parametrize("waiting", [0, 4])
    def test_a_short_queue_does_not_brake(self, waiting: int) -> None:
        house = pool()
        house.apply(sample(waiting), 0.5)
        assert send(house, 1, 10, 1.0) == [1]

    def test_the_next_first_event_lifts_it(self) -> None:
        house = pool()
        send(house, 1, 10)
        house.apply(sample(5), 0.5)
        assert send(house, 1, 10, 0.6) == []
        assert len(granted_ids(house.first_event(1, 0.7))) == 1

    def test_the_next_sample_lifts_it(self) -> None:
        house = pool()
        house.apply(sample(5), 0.5)
        send(house, 1, 10, 0.6)
        assert len(grants(house.apply(sample(0, 0.7), 0.7))) == 1

    def test_a_sample_that_says_nothing_of_waiting_does_not_brake(self) -> None:
        """Absent is not 0, and not 100 either."""
        house = pool()
        house.apply(ReplicaTelemetry("r0", 0.0, running=50), 0.1)
        assert send(house, 1, 10, 0.2) == [1]


class TestForeignTraffic:
    def test_ten_seconds_of_calls_that_nobody_sent_are_an_alarm(self) -> None:
        house = pool()
        for second in range(11):
            house.apply(sample(0, float(second), running=8), float(second))
            assert house.view().foreign_traffic == (frozenset({"r0"}) if second == 10 else set())

    def test_agreement_ends_it(self) -> None:
        house = pool()
        for second in range(12):
            house.apply(sample(0, float(second), running=8), float(second))
        house.apply(sample(0, 12.0, running=1), 12.0)
        assert house.view().foreign_traffic == frozenset()
