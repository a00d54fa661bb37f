"""Who is slow compared with its peers: known soon, forgotten soon, and not at a tenant's will."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.core.dispatch.effects import ReplicaConfig, ReplicaHealth
from gateway.core.routing.replica import Replica
from gateway.core.routing.slowness import (
    EVERY_S,
    MOST_BURDEN,
    MOST_TENANTS,
    SLOW_RATIO,
    Sample,
    Slowness,
)
from tests.core.factories import ticket

USUAL_S, TOKENS, SLOTS = 0.05, 200, 32


class House:
    """Four replicas and a clock. ``calls`` come one per replica and 100 ms."""

    def __init__(self, number: int = 4, **config: Any) -> None:
        self.slowness = Slowness()
        self.replicas = [
            Replica(ReplicaConfig(f"r{n}", SLOTS, **config), ReplicaHealth(f"r{n}", admits=True))
            for n in range(number)
        ]
        self.now_s = 0.0

    def began(
        self, replica: int, ttft_s: float, tokens: int = TOKENS, **changes: Any
    ) -> Sample | None:
        changes = {"input_tokens": tokens, **changes}
        return self.slowness.began(self.replicas[replica], ticket(**changes), tokens, ttft_s)

    def calls(self, seconds: float, slow: dict[int, float], *tenants: str) -> None:
        for _ in range(round(seconds * 10)):
            for number in range(len(self.replicas)):
                for tenant in tenants or ("alice",):
                    self.began(number, USUAL_S * slow.get(number, 1.0), tenant=tenant)
            self.passes(0.1)

    def passes(self, seconds: float) -> None:
        self.now_s += seconds
        if self.now_s >= self.slowness.due_s:
            self.slowness.update(self.now_s)

    def ratio(self, replica: int) -> float:
        self.passes(EVERY_S)
        return self.replicas[replica].slow_ratio

    def burden(self, replica: int) -> float:
        self.passes(EVERY_S)
        return self.replicas[replica].burden


def test_a_replica_that_takes_three_times_as_long_is_known_within_three_seconds() -> None:
    house = House()
    house.calls(5.0, {})
    house.calls(3.0, {0: 3.0})
    assert house.ratio(0) == pytest.approx(2.3, abs=0.2)
    assert house.burden(0) > 7.0
    assert [house.burden(peer) for peer in (1, 2, 3)] == [1.0, 1.0, 1.0]


def test_one_that_is_fast_again_is_so_within_five_seconds() -> None:
    house = House()
    house.calls(10.0, {0: 3.0})
    house.calls(5.0, {})
    assert house.burden(0) == 1.0


def test_one_that_gets_no_calls_is_unknown_again_within_thirty_seconds() -> None:
    house = House()
    house.calls(10.0, {0: 3.0})
    for _ in range(300):
        for peer in (1, 2, 3):
            house.began(peer, USUAL_S)
        house.passes(0.1)
    assert house.burden(0) == 1.0


def test_a_single_late_answer_is_no_slow_replica() -> None:
    house = House()
    house.calls(5.0, {})
    house.began(0, 1_000 * USUAL_S)
    assert house.burden(0) == 1.0


def test_what_befalls_all_makes_nobody_slow() -> None:
    house = House()
    house.calls(5.0, {})
    house.calls(5.0, dict.fromkeys(range(4), 4.0))
    assert [house.burden(number) for number in range(4)] == [1.0] * 4


def test_without_peers_nobody_is_slow() -> None:
    house = House(1)
    house.calls(5.0, {})
    house.calls(5.0, {0: 4.0})
    assert house.burden(0) == 1.0


def test_of_two_the_slower_is_found() -> None:
    house = House(2)
    house.calls(10.0, {1: 3.0})
    assert house.burden(0) == 1.0 < house.burden(1)


def test_however_slow_the_burden_is_bounded() -> None:
    house = House()
    house.calls(5.0, {})
    house.calls(20.0, {0: 1e6})
    assert house.burden(0) == MOST_BURDEN


class TestRoom:
    def slow(self, **config: Any) -> House:
        house = House(**config)
        house.calls(10.0, {0: 3.0})
        return house

    def fill(self, house: House, calls: int) -> None:
        for peer in house.replicas[1:]:
            for number in range(calls):
                peer.take(number, 1)

    def test_a_slow_replica_works_like_any_other_when_the_others_have_no_slots(self) -> None:
        house = self.slow()
        self.fill(house, SLOTS * 9 // 10)
        assert house.burden(0) == 1.0
        assert house.replicas[0].slow_ratio > SLOW_RATIO  # and is still shown

    def test_and_when_they_have_no_memory(self) -> None:
        """Calls of 250 tokens in all: four of them are a replica's memory."""
        house = self.slow(kv_tokens=1_000)
        self.fill(house, 4)
        assert house.burden(0) == 1.0

    def test_half_full_others_have_room(self) -> None:
        house = self.slow()
        before = house.burden(0)
        self.fill(house, SLOTS // 2)
        assert house.burden(0) == pytest.approx(before, rel=0.2)


class TestHostileTenant:
    """The others' calls, and what mallory's look like on the replica that she wants empty."""

    def others(self, house: House, seconds: float, *, on_target: bool = True) -> None:
        for _ in range(round(seconds * 10)):
            for number in range(0 if on_target else 1, 4):
                house.began(number, USUAL_S, tenant="alice")
            house.began(0, 20 * USUAL_S, tenant="mallory")
            house.began(1, USUAL_S, tenant="mallory")
            house.passes(0.1)

    def test_late_first_tokens_of_one_tenant_are_not_believed(self) -> None:
        house = House()
        house.calls(5.0, {})
        self.others(house, 20.0)
        assert house.burden(0) == 1.0

    def test_nor_when_nobody_else_is_served_there(self) -> None:
        house = House()
        house.calls(5.0, {})
        house.passes(60.0)
        self.others(house, 20.0, on_target=False)
        assert house.burden(0) == 1.0

    def test_nor_among_many_who_call_seldom(self) -> None:
        house = House()
        house.calls(5.0, {})
        for number in range(200):
            house.began(number % 4, USUAL_S, tenant=f"t{number}")
            for _ in range(5):
                house.began(0, 20 * USUAL_S, tenant="mallory")
            house.passes(0.1)
        assert house.burden(0) == 1.0

    def test_what_two_tenants_see_is_believed(self) -> None:
        house = House()
        house.calls(10.0, {0: 3.0}, "alice", "bob")
        assert house.burden(0) > 3.0

    def test_a_tenant_that_has_the_pool_to_itself_is_believed(self) -> None:
        house = House()
        house.calls(5.0, {}, "bob")
        house.passes(60.0)
        house.calls(10.0, {0: 3.0}, "alice")
        assert house.burden(0) > 3.0

    def test_long_prompts_are_compared_with_long_prompts(self) -> None:
        """One replica gets them all but a few, as by affinity."""
        house = House()
        for number in range(200):
            house.began(number % 4, USUAL_S)
            house.began(1 if number % 10 == 0 else 0, 100 * USUAL_S, tokens=50_000)
            house.passes(0.1)
        assert house.burden(0) == 1.0

    def test_bodies_that_are_not_text_are_no_samples(self) -> None:
        house = House()
        house.calls(5.0, {})
        assert house.began(0, 20 * USUAL_S, body_bytes=1_000_000) is None

    def test_many_names_take_no_more_memory(self) -> None:
        house = House()
        house.calls(5.0, {}, *(f"t{number}" for number in range(50)))
        assert all(len(voices) <= MOST_TENANTS for voices in house.slowness._voices.values())


def test_a_sample_that_was_a_mistake_is_taken_back() -> None:
    house = House()
    house.calls(5.0, {})
    samples = [house.began(0, 20 * USUAL_S) for _ in range(10)]
    assert house.burden(0) > 1.0
    for sample in samples:
        assert sample is not None
        house.slowness.mistaken(sample)
    assert house.burden(0) == 1.0


def test_taking_back_leaves_the_rest_as_it_would_have_been() -> None:
    one, other = House(), House()
    for house in (one, other):
        house.calls(5.0, {0: 1.3})
    for _ in range(10):
        sample = one.began(0, 20 * USUAL_S)
        assert sample is not None
        one.slowness.mistaken(sample)
    one.passes(EVERY_S)
    other.passes(EVERY_S)
    means = [
        voice.total / voice.weight
        for house in (one, other)
        for voice in house.slowness._voices[house.replicas[0]].values()
    ]
    assert means[0] == pytest.approx(means[1], abs=0.05)


def test_another_process_begins_unknown() -> None:
    house = House()
    house.calls(10.0, {0: 3.0})
    house.slowness.forget("r0")
    assert house.replicas[0].burden == 1.0
    assert house.slowness.slow == {}
    assert house.burden(0) == 1.0
