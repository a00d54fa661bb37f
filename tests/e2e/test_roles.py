"""Calls and pages in processes of their own, joined by Redis."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from channels_redis.pubsub import RedisPubSubChannelLayer

from dashboard.live.relay import receive
from gateway.core.events import SummarySecond
from tests.e2e.installation import Installation, installed
from tests.servers import RedisServer, free_port


@pytest.fixture(scope="module")
def place(
    redis_server: RedisServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    with installed(tmp_path_factory.mktemp("roles"), REDIS_URL=redis_server.url) as place:
        yield place


@pytest.fixture(scope="module")
def gateway(place: Installation) -> Iterator[Installation]:
    place.serve("--role", "gateway")
    yield place
    place.end()


@pytest.fixture(scope="module")
def web(place: Installation) -> Iterator[Installation]:
    other = replace(place, port=free_port(), serving=None)
    other.serve("--role", "web")
    yield other
    other.end()


def test_the_gateway_serves_calls_and_no_pages(gateway: Installation) -> None:
    statuses = {path: gateway.status(path) for path in ("/v1/models", "/accounts/login/", "/livez")}
    assert statuses == {"/v1/models": 401, "/accounts/login/": 404, "/livez": 200}


def test_the_web_process_serves_pages_and_no_calls(web: Installation) -> None:
    statuses = {path: web.status(path) for path in ("/v1/models", "/accounts/login/", "/livez")}
    assert statuses == {"/v1/models": 404, "/accounts/login/": 200, "/livez": 200}
    assert web.status("/api/v1/docs") == 200


async def test_the_gateway_publishes_its_seconds_for_pages_elsewhere(
    gateway: Installation, redis_server: RedisServer
) -> None:
    layer = RedisPubSubChannelLayer(hosts=[redis_server.url], prefix="fairway")
    async with asyncio.timeout(30):
        async for event in receive(layer):
            if isinstance(event, SummarySecond):
                assert {one.replica for one in event.replicas} == {"sim-1"}
                break
    await layer.flush()


def test_the_api_describes_itself_and_the_calls(web: Installation) -> None:
    with urllib.request.urlopen(f"{web.url}/api/v1/openapi.json", timeout=30) as answer:
        schema: dict[str, Any] = json.load(answer)
    for path in ("/v1/chat/completions", "/v1/models", "/api/v1/tenants"):
        assert path in schema["paths"]
