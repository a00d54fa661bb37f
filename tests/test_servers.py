"""The servers that other tests rely on come up empty and answer."""

from __future__ import annotations

import psycopg
import redis


def test_redis_of_the_session_is_empty(redis_url: str) -> None:
    with redis.Redis.from_url(redis_url) as client:
        assert client.dbsize() == 0


def test_postgresql_of_the_session_answers(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("select 1").fetchone() == (1,)
