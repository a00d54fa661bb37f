"""Where a call runs: least load, random ties, counted at the grant, counts that belong to
objects."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from gateway.core.caches.prefix_index import PrefixIndex
from gateway.core.dispatch.dispatcher import Dispatcher
from gateway.core.dispatch.effects import PoolConfig, ReplicaConfig, ReplicaHealth, Usage
from gateway.core.priority import PriorityClass
from gateway.core.queues.lane import ANYWHERE, Lane
from gateway.core.routing.hot_prefixes import HotPrefixes
from gateway.core.routing.policies import ROUTING_POLICIES, routing_policy
from gateway.core.routing.replica import Replica
from gateway.core.routing.roster import Roster
from gateway.core.routing.scene import Knowledge, Scene
from tests.core.factories import config, dispatcher, grants, replicas, ticket

UNEVEN = {"power_of_two": 4, "random": 12}  # calls apart, of 64 on 8 replicas
USAGE = Usage(100, 0, 50)


def replica(slug: str, *tokens: int, slots: int = 8) -> Replica:
    made = Replica(ReplicaConfig(slug, slots), ReplicaHealth(slug, admits=True))
    for number, amount in enumerate(tokens):
        made.take(number + 1, amount)
    return made


def scene(candidates: list[Replica], **changes: Any) -> Scene:
    known = Knowledge(PrefixIndex(), HotPrefixes(), random.Random(0))
    return Scene(ticket(**changes), candidates, lambda: candidates, known, 0.0)


def submit(pool: Dispatcher, number: int, **changes: Any) -> list[str]:
    effects = []
    for _ in range(number):
        effects += pool.submit(ticket(**changes), 0.0)
    return [grant.replica for grant in grants(effects)]


@pytest.mark.parametrize("policy", ROUTING_POLICIES)
class TestEveryPolicy:
    def test_picks_one_of_the_candidates(self, policy: str) -> None:
        candidates = [replica("a", 5), replica("b"), replica("c", 1, 2)]
        assert ROUTING_POLICIES[policy](scene(candidates)).replica in candidates

    def test_cold_calls_do_not_all_go_to_the_first_replica(self, policy: str) -> None:
        """R1."""
        firsts = Counter(
            submit(dispatcher(config(4, 8, routing=policy), seed=seed), 1)[0] for seed in range(200)
        )
        assert set(firsts) == {"r0", "r1", "r2", "r3"}
        assert max(firsts.values()) < 90

    def test_a_burst_spreads(self, policy: str) -> None:
        """R3: load is counted at the grant, before any answer."""
        placed = Counter(submit(dispatcher(config(8, 32, routing=policy)), 64))
        assert max(placed.values()) - min(placed.values()) <= UNEVEN.get(policy, 1)
        assert len(placed) == 8


def test_least_inflight_counts_tokens_not_calls() -> None:
    two = [replica("many", 10, 10, 10), replica("big", 5_000)]
    assert ROUTING_POLICIES["least_inflight"](scene(two)).replica.slug == "many"


def test_mixed_calls_of_all_kinds_balance() -> None:
    """R2, G17: every call counts, whatever its class; imbalance < 10 % over 1,000 calls."""
    pool, rng, served = dispatcher(config(4, 16)), random.Random(5), Counter[str]()
    running: list[int] = []
    for _ in range(1_000):
        for grant in grants(pool.submit(ticket(klass=rng.choice([*PriorityClass])), 0.0)):
            served[grant.replica] += 1
            running.append(grant.grant_id)
        if len(running) > 32:
            pool.release(running.pop(rng.randrange(8)), USAGE, 0.0)
    assert all(abs(calls - 250) < 25 for calls in served.values())


def test_an_unknown_policy_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match="bounded, least_cost, least_inflight"):
        routing_policy("fastest")


class TestRoster:
    def test_health_opens_and_closes_a_replica(self) -> None:
        roster = Roster(replicas(2))
        assert roster.set_health(ReplicaHealth("r0", admits=False)) == frozenset()
        assert (roster.admitting, roster.free) == ({"r1"}, {"r1"})
        assert roster.set_health(ReplicaHealth("r0", admits=True)) == {"r0"}

    def test_a_slot_cap_of_zero_admits_later(self) -> None:
        roster = Roster(replicas(1))
        roster.set_health(ReplicaHealth("r0", admits=True, slot_cap=0))
        assert (roster.admitting, roster.free) == ({"r0"}, set())

    def test_candidates_are_free_and_in_the_lane(self) -> None:
        roster = Roster(replicas(3))
        lane = Lane(frozenset({"r0", "r1"}), excluded=frozenset({"r0"}))
        assert [each.slug for each in roster.candidates(lane)] == ["r1"]
        assert len(roster.candidates(ANYWHERE)) == 3

    def test_news_that_comes_before_the_replica_counts(self) -> None:
        roster = Roster(replicas(1))
        assert roster.set_health(ReplicaHealth("r1", admits=False)) == frozenset()
        assert roster.configure(replicas(2)) == frozenset()
        assert roster.admitting == {"r0"}

    def test_a_replica_that_was_down_when_disabled_is_down_when_enabled(self) -> None:
        roster = Roster(replicas(2))
        roster.set_health(ReplicaHealth("r1", admits=False))
        roster.configure(replicas(1))
        roster.configure(replicas(2))
        assert roster.free == {"r0"}


class TestSlots:
    def test_a_replica_never_runs_more_than_its_slots(self) -> None:
        pool = dispatcher(config(2, 3))
        assert len(submit(pool, 10)) == 6
        assert pool.view().replica_in_flight == {"r0": 3, "r1": 3}

    def test_slow_start_caps_the_slots(self) -> None:
        pool = dispatcher(config(1, 32))
        pool.apply(ReplicaHealth("r0", admits=True, slot_cap=4), 0.0)
        assert len(submit(pool, 10)) == 4
        assert len(grants(pool.apply(ReplicaHealth("r0", admits=True, slot_cap=5), 1.0))) == 1

    def test_fewer_slots_end_no_running_call(self) -> None:
        pool = dispatcher(config(1, 4))
        first = grants([e for _ in range(4) for e in pool.submit(ticket(), 0.0)])
        pool.apply(config(1, 2), 0.0)
        assert submit(pool, 1) == []
        assert pool.release(first[0].grant_id, USAGE, 0.0) == []
        assert pool.release(first[1].grant_id, USAGE, 0.0) == []
        assert len(grants(pool.release(first[2].grant_id, USAGE, 0.0))) == 1


class TestRemovedAndAddedAgain:
    """R6: counts belong to the object."""

    def pool_with_running_call(self) -> tuple[Dispatcher, int]:
        pool = dispatcher(config(1, 2))
        return pool, grants(pool.submit(ticket(), 0.0))[0].grant_id

    def test_a_new_replica_of_the_same_name_starts_at_zero(self) -> None:
        pool, _ = self.pool_with_running_call()
        pool.apply(PoolConfig(replicas=(), weights={}), 0.0)
        pool.apply(config(1, 2), 0.0)
        assert pool.view().replica_in_flight == {"r0": 0}

    def test_an_old_call_ends_on_the_old_replica(self) -> None:
        pool, grant_id = self.pool_with_running_call()
        pool.apply(PoolConfig(replicas=(), weights={}), 0.0)
        pool.apply(config(1, 2), 0.0)
        submit(pool, 1)
        pool.release(grant_id, USAGE, 0.0)
        assert pool.view().replica_in_flight == {"r0": 1}
        assert pool.view().in_flight == {("alice", ticket().klass): 1}

    def test_the_end_of_an_old_call_frees_no_slot_of_the_new_replica(self) -> None:
        pool = dispatcher(config(1, 1))
        old = grants(pool.submit(ticket(), 0.0))[0].grant_id
        pool.apply(PoolConfig(replicas=(), weights={}), 0.0)
        pool.apply(config(1, 1), 0.0)
        assert submit(pool, 2) == ["r0"]
        assert pool.release(old, USAGE, 0.0) == []
