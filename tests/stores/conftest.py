from __future__ import annotations

import contextlib
import itertools
from collections.abc import AsyncIterator, Iterator

import pytest

from gateway.core.clock import SystemClock
from gateway.core.limits.demands import QuotaStore
from gateway.stores.memory import MemoryStore
from gateway.stores.redis import RedisStore
from tests import servers

NAMESPACES = itertools.count()
LEASE_S = 1.0
PATIENT_S = 60  # a busy machine is not what the tests of one operation are about


@pytest.fixture
def own_redis() -> Iterator[servers.RedisServer]:
    """A server that one test may freeze, kill or fill."""
    with servers.redis_server() as server:
        if server is None:
            pytest.skip("redis-server is not installed")
        yield server


@pytest.fixture(params=["memory", "redis"])
def store_url(request: pytest.FixtureRequest) -> str | None:
    """None: in memory."""
    if request.param == "memory":
        return None
    server: servers.RedisServer = request.getfixturevalue("redis_server")
    return server.url


@contextlib.asynccontextmanager
async def opened(url: str | None, lease_s: float) -> AsyncIterator[QuotaStore]:
    if url is None:
        yield MemoryStore(SystemClock(), lease_s=lease_s)
        return
    name = f"t{next(NAMESPACES)}"
    store = RedisStore(url, SystemClock(), timeout_s=PATIENT_S, namespace=name, lease_s=lease_s)
    yield store
    await store.aclose()


@pytest.fixture
async def store(store_url: str | None) -> AsyncIterator[QuotaStore]:
    async with opened(store_url, 600) as store:
        yield store


@pytest.fixture
async def short_leases(store_url: str | None) -> AsyncIterator[QuotaStore]:
    """A store whose leases end after LEASE_S."""
    async with opened(store_url, LEASE_S) as store:
        yield store
