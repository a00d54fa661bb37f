"""Any order of events, checked against a model that only counts (R5, R6, G17, G18).

The model knows which calls wait and which run where. After every step it demands: each call has one
fate, a free slot never stays beside a call that may use it, nothing late or stranded waits, the
views agree. At the end everything leaves, and every count must be exactly 0.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import dataclass, replace

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gateway.core.dispatch.dispatcher import Dispatcher
from gateway.core.dispatch.effects import (
    Effect,
    Grant,
    PoolConfig,
    Preempt,
    ReplicaConfig,
    ReplicaHealth,
    Ticket,
    Usage,
)
from gateway.core.priority import PriorityClass
from gateway.core.queues.fair_queue import StartTimeFairQueue
from gateway.core.queues.registry import QUEUES
from gateway.core.queues.waiting import lane_of
from gateway.core.routing.policies import ROUTING_POLICIES
from tests.core.factories import ticket

SLUGS = ("r0", "r1", "r2")
WAIT_LIMITS_S = (3.0, 6.0, 30.0)
tenants = st.sampled_from(["alice", "bob", "charlie"])
classes = st.sampled_from(list(PriorityClass))
slug_sets = st.frozensets(st.sampled_from(SLUGS), min_size=1)
picks = st.integers(0, 10**6)


@dataclass
class Place:
    """One life of a replica: the same name later is another place."""

    slug: str
    slots: int
    health: ReplicaHealth

    @property
    def limit(self) -> int:
        cap = self.slots if self.health.slot_cap is None else self.health.slot_cap
        return min(cap, self.slots) if self.health.admits else 0


class DispatcherMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now_s = 100.0
        self.waiting: dict[str, tuple[Ticket, float]] = {}  # with the moment of expiry
        self.running: dict[int, tuple[Ticket, Place]] = {}
        self.failed: list[Ticket] = []
        self.preempted: set[int] = set()
        self.places: dict[str, Place] = {}
        self.told: dict[str, ReplicaHealth] = {}
        self.seen_s = dict.fromkeys(PriorityClass, -1e9)  # queued or dispatched

    @initialize()
    def start(self) -> None:
        self.config = PoolConfig(
            replicas=(ReplicaConfig("r0", 2), ReplicaConfig("r1", 1)),
            weights={},
            wait_limit_s=WAIT_LIMITS_S,
            queue_calls_per_tenant=5,
            preempt_waste_ratio=1.0,
        )
        self.pool = Dispatcher("pool", self.config, random.Random(1), self.now_s)
        self.place(self.config)

    # Events

    @rule(
        tenant=tenants, klass=classes, eligible=st.none() | slug_sets, patience_s=st.floats(0.1, 9)
    )
    def submit(
        self, tenant: str, klass: PriorityClass, eligible: frozenset[str] | None, patience_s: float
    ) -> None:
        self.ask(ticket(tenant, klass, eligible=eligible, deadline_s=self.now_s + patience_s))

    @precondition(lambda self: self.failed)
    @rule(pick=picks, excluded=slug_sets)
    def ask_again(self, pick: int, excluded: frozenset[str]) -> None:
        call = self.failed.pop(pick % len(self.failed))
        self.ask(msgspec.structs.replace(call, again=True, excluded=excluded))

    @precondition(lambda self: self.waiting)
    @rule(pick=picks)
    def withdraw(self, pick: int) -> None:
        call_id = sorted(self.waiting)[pick % len(self.waiting)]
        del self.waiting[call_id]
        self.absorb(self.pool.withdraw(call_id, self.now_s))

    @precondition(lambda self: self.running)
    @rule(pick=picks, tokens=st.integers(0, 500))
    def stream(self, pick: int, tokens: int) -> None:
        grant_id = self.running_grant(pick)
        self.absorb(self.pool.first_event(grant_id, self.now_s))
        self.absorb(self.pool.progress(grant_id, tokens, self.now_s))

    @precondition(lambda self: self.running)
    @rule(pick=picks, output_tokens=st.none() | st.integers(0, 500))
    def finish(self, pick: int, output_tokens: int | None) -> None:
        grant_id = self.running_grant(pick)
        del self.running[grant_id]
        usage = None if output_tokens is None else Usage(100, 20, output_tokens)
        self.absorb(self.pool.release(grant_id, usage, self.now_s))

    @precondition(lambda self: self.running)
    @rule(pick=picks)
    def fail(self, pick: int) -> None:
        grant_id = self.running_grant(pick)
        call, _ = self.running.pop(grant_id)
        self.failed.append(call)
        self.absorb(self.pool.release(grant_id, None, self.now_s, refund=True))

    @precondition(lambda self: self.preempted & self.running.keys())
    @rule()
    def give_back(self) -> None:
        grant_id = min(self.preempted & self.running.keys())
        call, _ = self.running.pop(grant_id)
        assert call.klass is PriorityClass.BATCH
        assert call.preemptions < 2
        self.absorb(self.pool.release(grant_id, None, self.now_s, refund=True))
        self.ask(msgspec.structs.replace(call, again=True, preemptions=call.preemptions + 1))

    @rule(slug=st.sampled_from(SLUGS), admits=st.booleans(), cap=st.none() | st.integers(0, 3))
    def health(self, slug: str, admits: bool, cap: int | None) -> None:
        health = self.told[slug] = ReplicaHealth(slug, admits, cap)
        if slug in self.places:
            self.places[slug].health = health
        self.absorb(self.pool.apply(health, self.now_s))

    @rule(
        slots=st.dictionaries(st.sampled_from(SLUGS), st.integers(1, 3)),
        queue=st.sampled_from(sorted(QUEUES)),
        routing=st.sampled_from(sorted(ROUTING_POLICIES)),
        weight=st.sampled_from([0.5, 1.0, 7.0]),
    )
    def configure(self, slots: dict[str, int], queue: str, routing: str, weight: float) -> None:
        self.config = replace(
            self.config,
            replicas=tuple(ReplicaConfig(slug, number) for slug, number in slots.items()),
            weights={"alice": weight},
            queue=queue,
            routing=routing,
        )
        self.place(self.config)
        self.absorb(self.pool.apply(self.config, self.now_s))

    @rule(seconds=st.floats(0.01, 5))
    def let_time_pass(self, seconds: float) -> None:
        """As the caller does: wakes come at their exact moments."""
        until_s = self.now_s + seconds
        while (wake_s := self.pool.next_wake) is not None and wake_s <= until_s:
            assert wake_s >= self.now_s
            self.now_s = wake_s
            self.absorb(self.pool.wake(wake_s))
        self.now_s = until_s

    # The model

    def place(self, config: PoolConfig) -> None:
        wanted = {replica.slug: replica.slots for replica in config.replicas}
        for slug in set(self.places) - set(wanted):
            del self.places[slug]
        for slug, slots in wanted.items():
            health = self.told.get(slug, ReplicaHealth(slug, admits=True))
            fresh = Place(slug, slots, health)
            self.places.setdefault(slug, fresh).slots = slots

    def ask(self, call: Ticket) -> None:
        expires_s = min(self.now_s + WAIT_LIMITS_S[call.klass], call.deadline_s)
        self.waiting[call.call_id] = (call, expires_s)
        self.seen_s[call.klass] = self.now_s
        self.absorb(self.pool.submit(call, self.now_s))

    def running_grant(self, pick: int) -> int:
        return sorted(self.running)[pick % len(self.running)]

    def absorb(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Preempt):
                self.preempted.add(effect.grant_id)
                continue
            call, expires_s = self.waiting.pop(effect.call_id)  # one fate: it must wait
            if isinstance(effect, Grant):
                place = self.places[effect.replica]
                assert self.in_flight(place) < place.limit
                assert lane_of(call).admits(place.slug)
                assert expires_s > self.now_s
                assert effect.grant_id not in self.running
                self.running[effect.grant_id] = (call, place)
                self.seen_s[call.klass] = self.now_s

    def in_flight(self, place: Place) -> int:
        return sum(where is place for _, where in self.running.values())

    @invariant()
    def nothing_waits_that_could_run_or_never_can(self) -> None:
        free = {slug for slug, place in self.places.items() if self.in_flight(place) < place.limit}
        admitting = {slug for slug, place in self.places.items() if place.health.admits}
        for call, expires_s in self.waiting.values():
            assert not lane_of(call).meets(free) or self.is_held_back(call.klass)
            assert lane_of(call).meets(admitting)
            assert expires_s > self.now_s

    def is_held_back(self, klass: PriorityClass) -> bool:
        """Standard and batch hold 0.9, batch 0.7 of the slots while a higher class was seen."""
        slots = sum(place.limit for place in self.places.values())
        present = [call.klass for call, place in self.running.values() if self.is_present(place)]
        for limited, ratio in ((PriorityClass.STANDARD, 0.9), (PriorityClass.BATCH, 0.7)):
            at_limit = sum(one >= limited for one in present) >= math.ceil(ratio * slots)
            higher = [each for each in PriorityClass if each < limited]
            recent = any(self.now_s - self.seen_s[each] < 3.0 for each in higher)
            waits = any(call.klass in higher for call, _ in self.waiting.values())
            if klass >= limited and at_limit and (recent or waits):
                return True
        return False

    def is_present(self, place: Place) -> bool:
        return self.places.get(place.slug) is place

    @invariant()
    def the_views_agree(self) -> None:
        view = self.pool.view()
        assert view.queued == Counter(
            (call.tenant, call.klass) for call, _ in self.waiting.values()
        )
        assert view.in_flight == Counter(
            (call.tenant, call.klass) for call, _ in self.running.values()
        )
        assert view.replica_in_flight == {
            slug: self.in_flight(place) for slug, place in self.places.items()
        }
        assert all(cost >= -1e-6 for cost in view.service.values())

    def teardown(self) -> None:
        if not hasattr(self, "pool"):
            return
        for call_id in list(self.waiting):
            self.pool.withdraw(call_id, self.now_s)
        for grant_id in list(self.running):
            assert self.pool.release(grant_id, None, self.now_s) == []
        self.pool.wake(self.now_s + 1000.0)
        assert_exactly_zero(self.pool)


def assert_exactly_zero(pool: Dispatcher) -> None:
    view = pool.view()
    assert view.queued == view.in_flight == {}
    assert set(view.replica_in_flight.values()) <= {0}
    assert set(view.replica_unstarted.values()) <= {0}
    assert pool.next_wake is None
    assert all(replica.in_flight_tokens == 0 for replica in pool._roster)
    for klass in PriorityClass:
        load = pool._waiting.load.by_class[klass]
        assert (load.calls, load.body_bytes, load.cost) == (0, 0, 0.0)
        queue = pool._waiting.queue(klass)
        assert len(queue) == 0
        if isinstance(queue, StartTimeFairQueue):
            assert queue.tags() == {}


TestDispatcherMachine = DispatcherMachine.TestCase
TestDispatcherMachine.settings = settings(max_examples=120, stateful_step_count=50, deadline=None)


def test_a_thousand_calls_cancelled_at_random_phases_leave_nothing() -> None:
    """R5."""
    rng = random.Random(7)
    config = PoolConfig(tuple(ReplicaConfig(slug, 8) for slug in SLUGS), {"alice": 3.0})
    pool = Dispatcher("pool", config, rng, 0.0)
    running: list[int] = []
    waiting: set[str] = set()
    for number in range(1_000):
        now_s = number * 0.001
        call = ticket(rng.choice(["alice", "bob"]), rng.choice(list(PriorityClass)))
        waiting.add(call.call_id)
        effects = pool.submit(call, now_s)
        phase = rng.random()
        if phase < 0.25 and waiting:
            cancelled = rng.choice(sorted(waiting))
            waiting.discard(cancelled)
            effects += pool.withdraw(cancelled, now_s)
        elif phase < 0.75 and running:
            grant_id = running.pop(rng.randrange(len(running)))
            effects += pool.release(grant_id, rng.choice([None, Usage(100, 0, 7)]), now_s)
        for effect in effects:
            waiting.discard(effect.call_id)
            if isinstance(effect, Grant):
                running.append(effect.grant_id)
    for call_id in waiting:
        pool.withdraw(call_id, 2.0)
    for grant_id in running:
        pool.release(grant_id, None, 2.0)
    assert_exactly_zero(pool)
