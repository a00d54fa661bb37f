"""How the shared store uses its server: hash tags, expiry, errors."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import hiredis
import pytest
import redis

from gateway.core.clock import SystemClock
from gateway.core.limits.demands import Refused, Reservation
from gateway.stores import faults
from gateway.stores.faults import FaultKind, fault_of
from gateway.stores.redis import RedisStore
from gateway.stores.resp import ServerError
from tests.stores.factories import call_id, demand

OUT_OF_MEMORY = FaultKind.OUT_OF_MEMORY
EVERY = tuple(demand(meter, 1, 100) for meter in ("tpm", "day", "month", "credit", "concurrent"))


@pytest.fixture
async def store(redis_url: str) -> AsyncIterator[RedisStore]:
    store = RedisStore(redis_url, SystemClock(), timeout_s=10)
    yield store
    await store.aclose()


async def test_all_keys_of_a_tenant_lie_under_one_hash_tag(
    store: RedisStore, redis_url: str
) -> None:
    call = call_id()
    await store.reserve(call, (*EVERY, demand("rpm", 1, 10, key_id="k1")))
    await store.settle(call, {EVERY[0].key: 1})
    with redis.Redis.from_url(redis_url) as client:
        assert {key.split(b"{")[1].split(b"}")[0] for key in client.keys("*")} == {b"acme"}


async def test_buckets_of_a_period_expire_on_their_own_and_credit_never(
    store: RedisStore, redis_url: str
) -> None:
    await store.reserve(call_id(), EVERY)
    with redis.Redis.from_url(redis_url) as client:
        lives = {d.key.meter: client.ttl(f"fw:{{acme}}:b:{d.key}") for d in EVERY}
    assert lives.pop("credit") == -1
    assert 3_600 < lives["day"] <= 7_200
    assert all(0 < seconds <= 86_400 for seconds in lives.values())


async def test_record_of_a_settled_call_is_small_and_expires(
    store: RedisStore, redis_url: str
) -> None:
    call = call_id()
    await store.reserve(call, EVERY)
    await store.settle(call, {EVERY[1].key: 1})
    with redis.Redis.from_url(redis_url) as client:
        assert client.hgetall(f"fw:{{acme}}:call:{call}") == {b"state": b"done"}
        assert 0 < int(str(client.ttl(f"fw:{{acme}}:call:{call}"))) <= 3_600
        assert client.zcard("fw:{acme}:leases") == 0


async def test_raised_limit_refills_at_its_new_speed_even_while_calls_are_refused(
    store: RedisStore,
) -> None:
    deep, call = demand("tpm", 100, 100, window_s=1e6), call_id()
    await store.reserve(call, (deep,))
    await store.settle(call, {deep.key: 1_000})
    faster = (demand("tpm", 1, 600, window_s=0.2),)
    async with asyncio.timeout(5):
        while isinstance(await store.reserve(call_id(), faster), Refused):
            await asyncio.sleep(0.01)


async def test_server_whose_clock_was_set_back_neither_refills_nor_blocks(
    store: RedisStore, redis_url: str
) -> None:
    """Row 76: a bucket and a lease from an hour ahead."""
    rate, slot = demand("rpm", 1, 1, window_s=0.2), demand("concurrent", 1, 1)
    await store.reserve(call_id(), (rate, slot))
    with redis.Redis.from_url(redis_url) as client:
        client.hincrbyfloat(f"fw:{{acme}}:b:{rate.key}", "at", 3_600)
        client.zincrby("fw:{acme}:leases", 3_600, only_member(client))
        assert isinstance(await store.reserve(call_id(), (rate,)), Refused)
        lease_ends_s = client.zscore("fw:{acme}:leases", only_member(client))
    assert isinstance(lease_ends_s, float)
    assert lease_ends_s < time.time() + 20
    await asyncio.sleep(0.25)
    assert isinstance(await store.reserve(call_id(), (rate,)), Reservation)


def only_member(client: redis.Redis) -> bytes:
    (member,) = client.zrange("fw:{acme}:leases", 0, -1)
    assert isinstance(member, bytes)
    return member


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ServerError("BUSY Redis is busy running a script."), FaultKind.BUSY),
        (ServerError("OOM command not allowed when used memory > 'maxmemory'."), OUT_OF_MEMORY),
        (ServerError("ERR Error running script: -OOM command not allowed"), OUT_OF_MEMORY),
        (ServerError("READONLY You can't write against a replica."), FaultKind.READ_ONLY),
        (ServerError("LOADING Redis is loading the dataset in memory"), FaultKind.LOADING),
        (ServerError("MASTERDOWN Link with MASTER is down"), FaultKind.MASTER_DOWN),
        (ServerError("NOSCRIPT No matching script."), FaultKind.NO_SCRIPT),
        (ServerError("WRONGTYPE Operation against a key"), FaultKind.REFUSED),
        (hiredis.ProtocolError("what is this"), FaultKind.REFUSED),
        (ConnectionRefusedError("refused"), FaultKind.UNREACHABLE),
        (OSError("no route"), FaultKind.UNREACHABLE),
        (TimeoutError(), FaultKind.TIMEOUT),
    ],
)
def test_fault_is_named(error: BaseException, kind: FaultKind) -> None:
    """M12: one table."""
    assert isinstance(error, faults.FOREIGN)
    assert fault_of(error).kind is kind


async def test_many_leases_are_renewed_in_pieces(store: RedisStore, redis_url: str) -> None:
    """One script for all of them would keep the server, and every reservation, for its length."""
    calls = tuple(call_id() for _ in range(500))
    slot = demand("concurrent", 1, 1_000)
    await asyncio.gather(*(store.reserve(call, (slot,)) for call in calls))
    await store.renew(calls[:1])  # the server knows the script from here on
    with redis.Redis.from_url(redis_url) as client:
        (leases,) = client.keys("*leases")
        before_s = client.zrange(leases, -1, -1, withscores=True)[0][1]
        scripts_before = client.info("commandstats")["cmdstat_evalsha"]["calls"]
        await store.renew(calls)
        soonest_s = client.zrange(leases, 0, 0, withscores=True)[0][1]
        scripts = client.info("commandstats")["cmdstat_evalsha"]["calls"] - scripts_before
    assert scripts == 3
    assert soonest_s > before_s
