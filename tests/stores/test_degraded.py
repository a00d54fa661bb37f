"""What happens to calls while Redis is frozen, gone, full, forgetful or slow."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable
from typing import TypeVar

import pytest
import redis

from gateway.core.clock import SystemClock
from gateway.core.limits.demands import Demand, Refused, Reservation, StoreUnavailable
from gateway.stores.degraded import MOST_UNANSWERED, DegradingStore
from gateway.stores.redis import RedisStore
from tests.servers import RedisServer
from tests.stores.factories import call_id, demand

pytestmark = pytest.mark.alone

PAUSE_S = float(os.environ.get("TEST_REDIS_PAUSE_S", "5"))

T = TypeVar("T")


class Incidents:
    def __init__(self) -> None:
        self.degraded: list[str] = []
        self.restored = asyncio.Event()
        self.restored_at_s = 0.0

    def on_restored(self) -> None:
        self.restored_at_s = time.monotonic()
        self.restored.set()


@pytest.fixture
def incidents() -> Incidents:
    return Incidents()


@pytest.fixture
async def store(own_redis: RedisServer, incidents: Incidents) -> AsyncIterator[DegradingStore]:
    clock = SystemClock()
    async with DegradingStore(
        RedisStore(own_redis.url, clock),
        clock,
        processes=2,
        on_degraded=incidents.degraded.append,
        on_restored=incidents.on_restored,
    ) as store:
        yield store


async def until_lost(store: DegradingStore) -> None:
    async with asyncio.timeout(5):
        while not store.degraded:
            await store.peek((demand("rpm", 1, 1),))


async def until_settled(store: DegradingStore) -> None:
    async with asyncio.timeout(5):
        while store.waiting_settlements:
            await asyncio.sleep(0.01)


def command(server: RedisServer, *words: str | int) -> object:
    with redis.Redis.from_url(server.url, socket_timeout=5) as client:
        return client.execute_command(*words)


class Stopwatch:
    """The longest wait for the store, beside the longest stall of the loop itself."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self.lag_s = 0.0

    async def measure(self, operation: Awaitable[T]) -> T:
        begin = time.monotonic()
        try:
            return await operation
        finally:
            self.longest_s = max(self.longest_s, time.monotonic() - begin)

    async def watch_loop(self) -> None:
        while True:
            begin = time.monotonic()
            await asyncio.sleep(0.01)
            self.lag_s = max(self.lag_s, time.monotonic() - begin - 0.01)


async def one_call(store: DegradingStore, watch: Stopwatch, demands: tuple[Demand, ...]) -> None:
    call = call_id()
    await watch.measure(store.reserve(call, demands))
    await asyncio.sleep(0.05)
    await watch.measure(store.settle(call, {demands[0].key: 3.0}))


async def test_frozen_redis_delays_no_call_and_is_reconciled(
    own_redis: RedisServer, store: DegradingStore, incidents: Incidents
) -> None:
    """Row 25, G19, F27: no wait above 250 ms, declared, back in 2 s, nothing lost or doubled."""
    day = demand("day", 10, 1e9, fails_closed=False)
    demands = (day, demand("concurrent", 1, 1_000))
    watch, calls = Stopwatch(), 0
    long_running = call_id()
    await store.reserve(long_running, demands)
    loop_watch = asyncio.create_task(watch.watch_loop())
    async with asyncio.TaskGroup() as group:
        end_s = time.monotonic() + PAUSE_S
        own_redis.freeze()
        while time.monotonic() < end_s:
            group.create_task(one_call(store, watch, demands))
            calls += 1
            await asyncio.sleep(0.04)
        was_degraded = store.degraded
        own_redis.thaw()
        thawed_s = time.monotonic()
    async with asyncio.timeout(5):
        await incidents.restored.wait()
    await until_settled(store)
    loop_watch.cancel()
    assert was_degraded
    assert len(incidents.degraded) == 1
    assert incidents.restored_at_s - thawed_s <= 2.0 + watch.lag_s
    assert watch.longest_s <= 0.25 + 3 * watch.lag_s  # each of its steps may meet a stall
    states = await store.peek(demands)
    assert states[0].used == 3.0 * calls
    assert [state.held for state in states] == [10, 1], "only the running call holds"
    await store.settle(long_running, {day.key: 4.0})
    assert (await store.peek(demands))[0].used == 3.0 * calls + 4.0


async def test_killed_redis_comes_back_empty_and_budgets_are_known(
    own_redis: RedisServer, store: DegradingStore, incidents: Incidents
) -> None:
    """Row 23: what this process saw of a budget is its floor; running calls hold again."""
    day, slot = demand("day", 10, 100), demand("concurrent", 1, 4)
    spent, running = call_id(), call_id()
    await store.reserve(spent, (day,))
    await store.settle(spent, {day.key: 85})
    await store.reserve(running, (slot, demand("day", 1, 100)))
    command(own_redis, "FLUSHALL")
    own_redis.kill()
    await until_lost(store)
    await asyncio.to_thread(own_redis.start)
    async with asyncio.timeout(5):
        await incidents.restored.wait()
    assert (await store.peek((slot,)))[0].held == 1
    refused = await store.reserve(call_id(), (demand("day", 20, 100),))
    assert isinstance(refused, Refused)
    assert refused.used == 86


async def test_hard_budget_and_credit_fail_closed_while_lost(
    own_redis: RedisServer, store: DegradingStore
) -> None:
    """Row 35, G19."""
    own_redis.freeze()
    await until_lost(store)
    for meter in ("day", "credit"):
        with pytest.raises(StoreUnavailable):
            await store.reserve(call_id(), (demand(meter, 1, 100),))


async def test_local_share_is_the_limit_divided_by_processes(
    own_redis: RedisServer, store: DegradingStore
) -> None:
    """I2: two processes, 100 per minute: 50 here, and every grant says that it is degraded."""
    own_redis.freeze()
    await until_lost(store)
    asked = (demand("rpm", 1, 100),)
    answers = [await store.reserve(call_id(), asked) for _ in range(100)]
    granted = [answer for answer in answers if isinstance(answer, Reservation)]
    assert len(granted) == 50
    assert all(answer.degraded for answer in answers)


async def test_local_share_starts_from_what_was_last_seen(
    own_redis: RedisServer, store: DegradingStore
) -> None:
    rate, slot = demand("tpm", 80, 100), demand("concurrent", 1, 4)
    for _ in range(2):
        await store.reserve(call_id(), (slot,))
    await store.reserve(call_id(), (rate,))
    own_redis.freeze()
    await until_lost(store)
    assert isinstance(await store.reserve(call_id(), (demand("tpm", 20, 100),)), Refused)
    assert isinstance(await store.reserve(call_id(), (slot,)), Refused)


async def test_call_granted_while_lost_is_charged_after_the_return(
    own_redis: RedisServer, store: DegradingStore, incidents: Incidents
) -> None:
    """Reconciled once, whether it ended during the outage or after it."""
    day = demand("day", 10, 1_000, fails_closed=False)
    own_redis.freeze()
    await until_lost(store)
    during, after = call_id(), call_id()
    await store.reserve(during, (day,))
    await store.reserve(after, (day,))
    await store.settle(during, {day.key: 7})
    own_redis.thaw()
    async with asyncio.timeout(5):
        await incidents.restored.wait()
    await store.settle(after, {day.key: 5})
    await until_settled(store)
    state = (await store.peek((day,)))[0]
    assert (state.used, state.held) == (12, 0)


async def test_cancelled_reserve_leaves_no_hold(store: DegradingStore) -> None:
    """G4, R5: the client went away while the store was being asked, at any step of it."""
    slot = demand("concurrent", 1, 1_000)
    for steps in range(60):
        call = call_id()
        asking = asyncio.create_task(store.reserve(call, (slot,)))
        for _ in range(steps % 12):
            await asyncio.sleep(0)
        if asking.cancel():
            with pytest.raises(asyncio.CancelledError):
                await asking
        else:
            await store.settle(call, None)
    await until_settled(store)
    assert (await store.peek((slot,)))[0].held == 0


async def test_settlement_that_nobody_awaits_is_sent_before_the_store_closes(
    own_redis: RedisServer,
) -> None:
    """Also to a server that has just forgotten its scripts."""
    slot, call, clock = demand("concurrent", 1, 1_000), call_id(), SystemClock()
    async with DegradingStore(RedisStore(own_redis.url, clock, timeout_s=30), clock) as store:
        await store.reserve(call, (slot,))
        await asyncio.to_thread(command, own_redis, "SCRIPT", "FLUSH")
        store.settle(call, None)
    other = RedisStore(own_redis.url, clock, timeout_s=30)
    assert (await other.peek((slot,)))[0].held == 0
    await other.aclose()


async def test_scripts_flushed_every_100_ms_are_never_missed(own_redis: RedisServer) -> None:
    """Row 28: any fault of the store would raise here."""
    slot, end_s, calls = demand("concurrent", 1, 1_000), time.monotonic() + 3, 0
    store = RedisStore(own_redis.url, SystemClock(), timeout_s=30)

    async def flush() -> None:
        while time.monotonic() < end_s:
            await asyncio.to_thread(command, own_redis, "SCRIPT", "FLUSH")
            await asyncio.sleep(0.1)

    flushing = asyncio.create_task(flush())
    while time.monotonic() < end_s:
        call = call_id()
        await store.reserve(call, (slot,))
        await store.settle(call, None)
        calls += 1
    await flushing
    assert calls > 20
    assert (await store.peek((slot,)))[0].held == 0
    await store.aclose()


async def test_full_redis_is_treated_as_lost_and_recovers(
    own_redis: RedisServer, store: DegradingStore, incidents: Incidents
) -> None:
    """Row 30: maxmemory."""
    asked = (demand("rpm", 1, 100),)
    command(own_redis, "CONFIG", "SET", "maxmemory", 1)
    async with asyncio.timeout(5):
        while not store.degraded:
            assert isinstance(await store.reserve(call_id(), asked), Reservation)
    assert store.why.startswith("out_of_memory")
    command(own_redis, "CONFIG", "SET", "maxmemory", 0)
    async with asyncio.timeout(5):
        await incidents.restored.wait()
    assert not (await store.reserve(call_id(), asked)).degraded


async def test_read_only_replica_is_treated_as_lost(
    own_redis: RedisServer, store: DegradingStore
) -> None:
    """M12: after a failover the old master takes no writes."""
    command(own_redis, "CONFIG", "SET", "replica-serve-stale-data", "yes")
    command(own_redis, "REPLICAOF", "127.0.0.1", 1)
    async with asyncio.timeout(5):
        while not store.degraded:
            await store.reserve(call_id(), (demand("rpm", 1, 1_000),))
    assert store.why.startswith("read_only")


async def test_a_crowd_that_leaves_does_not_make_the_server_look_lost(
    store: DegradingStore, incidents: Incidents
) -> None:
    """G21: so many settlements in one turn; what is counted is how many are sent at once."""
    demands, crowd = (demand("rpm", 1, 1_000_000),), [call_id() for _ in range(1_000)]
    assert isinstance(await store.reserve(call_id(), demands), Reservation)
    for one in crowd:
        store.settle(one, {demands[0].key: 1.0})
    assert store.waiting_settlements == len(crowd) - MOST_UNANSWERED
    await until_settled(store)
    assert incidents.degraded == []
