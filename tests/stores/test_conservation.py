"""Random interleavings of calls, crashes, losses, clock steps and limit changes conserve quota.

After every step each store equals the reference model, and what a budget was charged equals the
ledger of what was settled.
"""

from __future__ import annotations

import asyncio
import copy
import itertools
from typing import Any

import msgspec
import pytest
import redis
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from gateway.core.clock import SystemClock
from gateway.core.limits.book import BucketBook, kind_of
from gateway.core.limits.demands import BucketKey, BucketState, Demand, Kind, Reservation
from gateway.stores import snapshot_file
from gateway.stores.redis import RedisStore
from tests import servers
from tests.stores.factories import call_id, demand
from tests.stores.reference import LEASE_S, Model

METERS = ("tpm", "day", "concurrent", "rpm")
DAY = demand("day", 1, 1).key
FULL = settings(
    max_examples=200,
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
Entry = tuple[str, tuple[Demand, ...]]
sizes = st.lists(st.integers(1, 40), min_size=len(METERS), max_size=len(METERS))
chosen = st.sets(st.sampled_from(METERS), min_size=1)


class Conservation(RuleBasedStateMachine):
    """What both stores have in common. ``capacity`` is what an operator changes."""

    calls = Bundle("calls")
    window_s = 1e12

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.capacity = dict.fromkeys(METERS, 100)
        self.now_s = 0.0

    def store_reserve(self, call: str, demands: tuple[Demand, ...]) -> bool:
        raise NotImplementedError

    def store_settle(self, call: str, actual: dict[BucketKey, float] | None) -> None:
        raise NotImplementedError

    def store_renew(self, call: str) -> None:
        raise NotImplementedError

    def store_peek(self, demands: tuple[Demand, ...]) -> tuple[BucketState, ...]:
        raise NotImplementedError

    def demands(self, amounts: list[int], meters: set[str]) -> tuple[Demand, ...]:
        return tuple(
            demand(meter, amount, self.capacity[meter], window_s=self.window_s)
            for meter, amount in zip(METERS, amounts, strict=True)
            if meter in meters
        )

    @rule(target=calls, amounts=sizes, meters=chosen)
    def reserve(self, amounts: list[int], meters: set[str]) -> Any:
        call, demands = call_id(), self.demands(amounts, meters)
        expected = self.model.reserve(call, demands, self.now_s)
        assert self.store_reserve(call, demands) == expected
        return (call, demands) if expected else multiple()

    @rule(entry=calls)
    def reserve_again(self, entry: Entry) -> None:
        call, demands = entry
        demands = tuple(
            msgspec.structs.replace(d, capacity=self.capacity[d.key.meter]) for d in demands
        )
        expected = self.model.reserve(call, demands, self.now_s)
        assert self.store_reserve(call, demands) == expected

    @rule(entry=calls, used=st.integers(0, 60))
    def settle(self, entry: Entry, used: int) -> None:
        call, demands = entry
        actual = {d.key: float(used) for d in demands if d.kind is not Kind.LEVEL}
        self.model.settle(call, actual, self.now_s)
        self.store_settle(call, actual)

    @rule(entry=calls)
    def abandon(self, entry: Entry) -> None:
        self.model.settle(entry[0], {}, self.now_s)
        self.store_settle(entry[0], None)

    @rule(entry=calls)
    def renew(self, entry: Entry) -> None:
        self.model.renew(entry[0], self.now_s)
        self.store_renew(entry[0])

    @rule(meter=st.sampled_from(METERS), capacity=st.integers(10, 300))
    def change_limit(self, meter: str, capacity: int) -> None:
        self.capacity[meter] = capacity

    @invariant()
    def store_equals_model(self) -> None:
        probe = self.demands([1] * len(METERS), set(METERS))
        for state in self.store_peek(probe):
            bucket = self.model.buckets.get(state.key)
            used, held = bucket.used if bucket else 0.0, self.model.held(state.key)
            if kind_of(state.key) is Kind.RATE:
                held = min(held, used)
                used -= held
            assert state.used == pytest.approx(used, abs=1e-4)
            assert state.held == pytest.approx(held, abs=1e-4)
            if state.key == DAY:
                assert state.used == self.model.charged.get(DAY, 0.0)


class InMemory(Conservation):
    """With a clock that jumps, and a snapshot that a crash falls back to."""

    window_s = 60.0

    def __init__(self) -> None:
        super().__init__()
        self.wall_s = 1_798_000_000.0
        self.book = BucketBook()
        self.saved: tuple[snapshot_file.BookImage, Model, float] | None = None

    @rule(seconds=st.floats(0, 20))
    def time_passes(self, seconds: float) -> None:
        self.now_s += seconds
        self.wall_s += seconds
        self.model.advance(self.now_s)

    @rule(seconds=st.sampled_from([-3_600.0, 7_200.0]))
    def wall_clock_steps(self, seconds: float) -> None:
        """Row 76: nothing changes."""
        self.wall_s += seconds

    @rule()
    def snapshot(self) -> None:
        image = snapshot_file.take(self.book, now_s=self.now_s, wall_s=self.wall_s)
        self.saved = (image, copy.deepcopy(self.model), self.now_s)

    @rule(down_s=st.floats(0, 100))
    def crash(self, down_s: float) -> None:
        """What came after the snapshot is forgotten; LEVEL holds died with the process."""
        if self.saved is None:
            return
        image, model, taken_s = self.saved
        self.model, self.book = copy.deepcopy(model), BucketBook()
        self.wall_s = max(self.wall_s, image.taken_at) + down_s
        elapsed_s = self.wall_s - image.taken_at
        snapshot_file.restore(image, self.book, now_s=self.now_s, wall_s=self.wall_s)
        self.model.restart(taken_s, elapsed_s, self.now_s)

    @rule()
    def store_is_lost(self) -> None:
        """Budgets are seeded from the ledger, twice."""
        self.model.lose_everything({DAY}, self.now_s)
        self.model.calls.clear()
        self.book, self.saved = BucketBook(), None
        for _ in range(2):
            self.book.seed(DAY, self.model.charged.get(DAY, 0.0), self.now_s)

    def store_reserve(self, call: str, demands: tuple[Demand, ...]) -> bool:
        return isinstance(self.book.reserve(call, demands, self.now_s), Reservation)

    def store_settle(self, call: str, actual: dict[BucketKey, float] | None) -> None:
        self.book.settle(call, actual, self.now_s)

    def store_renew(self, call: str) -> None:
        self.book.renew((call,), self.now_s)

    def store_peek(self, demands: tuple[Demand, ...]) -> tuple[BucketState, ...]:
        return self.book.peek(demands, self.now_s)


class InRedis(Conservation):
    """Time is the server's; a crash is seen as leases that end."""

    numbers = itertools.count()
    server: servers.RedisServer
    runner: asyncio.Runner
    admin: redis.Redis

    def __init__(self) -> None:
        super().__init__()
        self.space = f"m{next(self.numbers)}"
        self.store = RedisStore(
            self.server.url, SystemClock(), timeout_s=10, namespace=self.space, lease_s=LEASE_S * 20
        )

    def teardown(self) -> None:
        self.runner.run(self.store.aclose())

    @rule()
    def crash(self) -> None:
        leases = f"{self.space}:{{acme}}:leases"
        for member in self.admin.zrange(leases, 0, -1):
            assert isinstance(member, bytes)
            self.admin.zincrby(leases, -1e9, member)
        self.model.end_leases()
        self.model.advance(self.now_s)

    @rule()
    def store_is_lost(self) -> None:
        """Budgets are known to the process that charged them."""
        self.admin.flushdb()
        self.model.lose_everything({DAY}, self.now_s)

    def store_reserve(self, call: str, demands: tuple[Demand, ...]) -> bool:
        answer = self.runner.run(self.store.reserve(call, demands))
        return isinstance(answer, Reservation)

    def store_settle(self, call: str, actual: dict[BucketKey, float] | None) -> None:
        self.store.open.pop(call, None)
        self.runner.run(self.settled(call, actual or {}))

    async def settled(self, call: str, actual: dict[BucketKey, float]) -> None:
        await self.store.settling("acme", call, actual)

    def store_renew(self, call: str) -> None:
        self.runner.run(self.store.renew((call,)))

    def store_peek(self, demands: tuple[Demand, ...]) -> tuple[BucketState, ...]:
        return self.runner.run(self.store.peek(demands))


@pytest.mark.timeout(300)
def test_memory_conserves_quota_through_crashes_losses_and_clock_steps() -> None:
    run_state_machine_as_test(InMemory, settings=FULL)


@pytest.mark.timeout(300)
def test_redis_conserves_quota_through_crashes_and_losses(
    redis_server: servers.RedisServer,
) -> None:
    with asyncio.Runner() as runner, redis.Redis.from_url(redis_server.url) as admin:
        InRedis.server, InRedis.runner, InRedis.admin = redis_server, runner, admin
        run_state_machine_as_test(InRedis, settings=FULL)
