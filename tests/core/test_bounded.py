"""Affinity with bounded load, rule by rule; what routing learns and forgets."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from gateway.core.caches.prefix_chain import PrefixChain
from gateway.core.dispatch.dispatcher import Dispatcher
from gateway.core.dispatch.effects import (
    Grant,
    PoolConfig,
    ReplicaConfig,
    ReplicaHealth,
    ReplicaTelemetry,
    Usage,
)
from gateway.core.routing.policies import ROUTING_POLICIES
from tests.core.factories import config, dispatcher, grants, ticket

BY_MATCH = ("bounded", "least_cost", "threshold", "blend", "sticky", "longest_match")
BLOCKS = 20
BLOCK_TOKENS = 50.0


def prompt(name: int, blocks: int = BLOCKS, *, session: int = 0) -> PrefixChain:
    return PrefixChain(tuple(1_000 * name + b for b in range(blocks)), BLOCK_TOKENS, session)


def asking(name: int, *, session: int = 0) -> dict[str, Any]:
    return {"prefix": prompt(name, session=session), "input_tokens": 1_000, "output_tokens": 10}


def send(pool: Dispatcher, now_s: float = 0.0, **changes: Any) -> Grant:
    [grant] = grants(pool.submit(ticket(**changes), now_s))
    return grant


def end(pool: Dispatcher, grant: Grant, cached: int = 0, now_s: float = 0.0) -> None:
    pool.release(grant.grant_id, Usage(1_000, cached, 10), now_s)


def warm(pool: Dispatcher, name: int) -> str:
    grant = send(pool, **asking(name))
    end(pool, grant)
    return grant.replica


def open_pool(number: int = 8, slots: int = 64, **changes: Any) -> Dispatcher:
    changes = {"unstarted_calls": 10**6, "routing": "bounded", **changes}
    return dispatcher(config(number, slots, **changes))


@pytest.mark.parametrize("policy", BY_MATCH)
def test_a_prompt_goes_where_it_is_held(policy: str) -> None:
    pool = open_pool(routing=policy)
    home = warm(pool, 1)
    grant = send(pool, **asking(1))
    assert (grant.replica, grant.predicted_cached_tokens) == (home, 999)


@pytest.mark.parametrize("policy", sorted(ROUTING_POLICIES))
def test_every_grant_says_why(policy: str) -> None:
    pool = open_pool(routing=policy)
    warm(pool, 1)
    decision = send(pool, **asking(1)).decision
    assert decision is not None
    assert (decision.policy, decision.best_cached_tokens) == (policy, 999)
    assert decision.rule


def test_different_prompts_spread_over_idle_replicas() -> None:
    """A replica that was never used must not lose every tie: fewest resident blocks."""
    pool = open_pool()
    assert len({warm(pool, name) for name in range(8)}) == 8


def test_a_call_in_flight_counts_for_more_than_a_block() -> None:
    """Prompts of unequal length: who holds a block less is not the emptier one for that."""
    pool = open_pool(2)
    busy = send(pool, prefix=prompt(1, BLOCKS - 1), input_tokens=950, output_tokens=10).replica
    other = warm(pool, 2)
    assert other != busy
    assert send(pool, **asking(3)).replica == other


def test_an_overloaded_holder_is_left_alone() -> None:
    pool = open_pool(4)
    home = warm(pool, 1)
    pool.apply(
        PoolConfig((ReplicaConfig(home, 64),), {}, routing="bounded", unstarted_calls=10**6), 0.0
    )
    for name in range(100, 110):
        send(pool, **asking(name))
    pool.apply(config(4, 64, routing="bounded", unstarted_calls=10**6), 0.0)
    grant = send(pool, **asking(1))
    assert grant.replica != home
    assert grant.decision is not None
    assert grant.decision.rule == "least_load"
    assert grant.decision.best_cached_tokens == 999


def test_what_is_nearly_read_leaves_room_for_the_next_call_of_its_holder() -> None:
    """A bound of calls as small as the one in flight would take no call with a new question."""
    pool = open_pool(2)
    home = warm(pool, 1)
    send(pool, input_tokens=2, output_tokens=1)
    grant = send(pool, **{**asking(1), "input_tokens": 1_100})
    assert grant.decision is not None
    assert (grant.replica, grant.decision.rule) == (home, "affinity")


def test_one_hot_prompt_comes_to_be_held_by_all_and_loads_stay_even() -> None:
    """Hot prefix: max/mean load <= 1.25 with nine of ten tokens cached."""
    pool, running = open_pool(8), list[Grant]()
    served, cached = Counter[str](), 0
    for number in range(2_000):
        grant = send(pool, number * 0.05, **asking(1))
        running.append(grant)
        served[grant.replica] += 1
        cached += grant.predicted_cached_tokens
        if len(running) > 64:
            end(pool, running.pop(0), now_s=number * 0.05)
    assert max(served.values()) <= 1.25 * 2_000 / 8
    assert cached >= 0.9 * 2_000 * 999


class TestSessions:
    def test_without_a_held_prompt_a_session_goes_home(self) -> None:
        pool = open_pool()
        first = send(pool, **asking(1, session=7))
        end(pool, first)
        assert send(pool, **asking(2, session=7)).replica == first.replica

    def test_a_session_never_exceeds_the_bound(self) -> None:
        pool = open_pool(4)
        placed = Counter(send(pool, **asking(n, session=7)).replica for n in range(1, 200))
        assert max(placed.values()) <= 1.25 * 200 / 4 + 5


class TestForgotten:
    """R25: after a restart the index must not claim the cache that is gone."""

    def reading(self, pool: Dispatcher, slug: str, prompt_tokens: int, at_s: float) -> None:
        pool.apply(ReplicaTelemetry(slug, at_s, 0, 0, 0.0, prompt_tokens=prompt_tokens), at_s)

    def test_a_counter_that_falls_means_another_process(self) -> None:
        pool = open_pool(2)
        home = warm(pool, 1)
        self.reading(pool, home, 5_000, 1.0)
        self.reading(pool, home, 6_000, 2.0)
        assert send(pool, 2.0, **asking(1)).predicted_cached_tokens == 999
        self.reading(pool, home, 10, 3.0)
        assert send(pool, 3.0, **asking(1)).predicted_cached_tokens == 0

    def test_a_replica_that_went_down_comes_back_empty(self) -> None:
        pool = open_pool(2)
        home = warm(pool, 1)
        pool.apply(ReplicaHealth(home, admits=False), 1.0)
        pool.apply(ReplicaHealth(home, admits=True), 2.0)
        assert send(pool, 2.0, **asking(1)).predicted_cached_tokens == 0

    def test_a_full_replica_keeps_its_cache(self) -> None:
        pool = open_pool(1)
        home = warm(pool, 1)
        pool.apply(ReplicaHealth(home, admits=True, slot_cap=0), 1.0)
        pool.apply(ReplicaHealth(home, admits=True), 2.0)
        assert send(pool, 2.0, **asking(1)).predicted_cached_tokens == 999

    def test_a_removed_replica_is_forgotten(self) -> None:
        pool = open_pool(1)
        warm(pool, 1)
        pool.apply(PoolConfig((), {}), 1.0)
        pool.apply(config(1, 64, routing="bounded"), 2.0)
        assert send(pool, 2.0, **asking(1)).predicted_cached_tokens == 0


def test_cached_prompt_tokens_are_no_load() -> None:
    """A holder of many running copies of one prompt is not full of them."""
    pool = dispatcher(config(1, 64, routing="bounded", unstarted_calls=10**6))
    warm(pool, 1)
    for _ in range(10):
        decision = send(pool, **asking(1)).decision
    assert decision is not None
    assert decision.predicted_cached_tokens == 999
    assert pool.view().replica_in_flight == {"r0": 10}


def test_the_rate_of_a_replica_is_learned_from_calls_that_were_alone() -> None:
    pool = open_pool(1, routing="least_cost")
    for number, (tokens, ttft_s) in enumerate([(10, 0.02), (4_000, 0.22), (4_000, 0.42)]):
        grant = send(pool, number * 10.0, input_tokens=tokens)
        pool.first_event(grant.grant_id, number * 10.0 + ttft_s)
        pool.release(grant.grant_id, Usage(tokens, 0, 10), number * 10.0 + 1)
    [replica] = pool._roster
    assert replica.peak.tps == pytest.approx(20_000, rel=0.01)


class TestSlowReplica:
    """One of three takes three times as long to its first tokens; see test_slowness for who counts
    as slow."""

    def serve(self, pool: Dispatcher, at_s: float, slow: str = "", **changes: Any) -> Grant:
        grant = send(pool, at_s, **changes)
        ttft_s = 0.15 if grant.replica == slow else 0.05
        pool.first_event(grant.grant_id, at_s + ttft_s)
        end(pool, grant, grant.predicted_cached_tokens, at_s + ttft_s)
        return grant

    def known_as_slow(self, slow: str = "r0") -> Dispatcher:
        """At 30 s."""
        pool = open_pool(3)
        for number in range(150):
            self.serve(pool, number * 0.2, slow, **asking(1_000 + number))
        return pool

    def test_it_is_left_alone_while_the_others_have_room(self) -> None:
        pool = self.known_as_slow()
        placed = Counter(
            self.serve(pool, 30 + number * 0.2, "r0", **asking(2_000 + number)).replica
            for number in range(200)
        )
        assert placed["r0"] <= 8

    def test_prompts_that_it_holds_move(self) -> None:
        pool = open_pool(3)
        home = self.serve(pool, 0.0, **asking(1)).replica
        for number in range(150):
            self.serve(pool, number * 0.2, home, **asking(1_000 + number))
        assert send(pool, 30.0, **asking(1)).replica != home

    def test_it_runs_calls_when_the_others_have_no_slots(self) -> None:
        pool = self.known_as_slow()
        placed = Counter(send(pool, 30.0, **asking(n)).replica for n in range(2_000, 2_192))
        assert placed == {"r0": 64, "r1": 64, "r2": 64}

    def test_decision_and_view_say_how_slow_it_is(self) -> None:
        pool = self.known_as_slow()
        [(slug, ratio)] = pool.view().slow.items()
        assert slug == "r0"
        assert ratio == pytest.approx(2.0, abs=0.5)
        decisions = [send(pool, 30.0, **asking(2_000 + number)).decision for number in range(100)]
        [told, *_] = [
            candidate
            for decision in decisions
            if decision is not None
            for candidate in decision.candidates
            if candidate.replica == slug
        ]
        assert told.slow_ratio == ratio

    def test_after_a_restart_it_is_like_the_others(self) -> None:
        pool = self.known_as_slow()
        pool.apply(ReplicaHealth("r0", admits=False), 30.0)
        pool.apply(ReplicaHealth("r0", admits=True), 31.0)
        assert pool.view().slow == {}

    def test_a_prefix_that_was_not_in_the_cache_makes_no_replica_slow(self) -> None:
        """It is expected on one replica, and read again every time."""
        pool = open_pool(3)
        for number in range(60):
            self.serve(pool, number * 0.2, **asking(1_000 + number))
        end(pool, send(pool, 12.0, **asking(1)), cached=500, now_s=12.0)
        for number in range(100):
            at_s = 12.1 + number * 0.2
            self.serve(pool, at_s, **asking(2_000 + number))
            grant = send(pool, at_s, **asking(1))
            pool.first_event(grant.grant_id, at_s + 1.0)
            end(pool, grant, cached=0, now_s=at_s + 1.0)
        assert pool.view().slow == {}
