"""Fixtures of real servers, one per test session, started when the first test asks for them.

Where a program is missing the test is skipped with the program's name.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests import servers
from tests.emptied_database import database_can_be_emptied

__all__ = ["database_can_be_emptied"]


@pytest.fixture(scope="session")
def redis_server() -> Iterator[servers.RedisServer]:
    with servers.redis_server() as server:
        if server is None:
            pytest.skip("redis-server is not installed")
        yield server


@pytest.fixture
def redis_url(redis_server: servers.RedisServer) -> str:
    """URL of an empty Redis."""
    redis_server.flush()
    return redis_server.url


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[servers.PostgresServer]:
    with servers.postgres_server() as server:
        if server is None:
            pytest.skip("PostgreSQL is not installed")
        yield server


@pytest.fixture(scope="session")
def postgres_url(postgres_server: servers.PostgresServer) -> str:
    """URL of a database that this session shares."""
    return postgres_server.url


@pytest.fixture(scope="session")
def chromium_path() -> str:
    path = servers.chromium()
    if path is None:
        pytest.skip("chromium is not installed")
    return path


@pytest.fixture
def free_port() -> int:
    return servers.free_port()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what touches the database, so that it can run on another one too. Browser tests come
    last: Playwright keeps its loop running in this thread, where other tests need their own."""
    items.sort(key=lambda item: item.path.parent.name == "browser")
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        if item.get_closest_marker("django_db") or {"db", "transactional_db"} & set(fixtures):
            item.add_marker("database")
