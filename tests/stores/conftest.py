from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator

import pytest

from gateway.core.clock import SystemClock
from gateway.core.limits.demands import QuotaStore
from gateway.stores.memory import MemoryStore
from gateway.stores.redis import RedisStore
from tests import servers

NAMESPACES = itertools.count()
LEASE_S = 0.4
PATIENT_S = 10  # a busy machine is not what the tests of one operation are about


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


@pytest.fixture
async def store(store_url: str | None) -> AsyncIterator[QuotaStore]:
    if store_url is None:
        yield MemoryStore(SystemClock(), lease_s=LEASE_S)
        return
    redis_store = RedisStore(
        store_url,
        SystemClock(),
        timeout_s=PATIENT_S,
        namespace=f"t{next(NAMESPACES)}",
        lease_s=LEASE_S,
    )
    yield redis_store
    await redis_store.aclose()
