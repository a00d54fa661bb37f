"""A Redis that answers but cannot serve is a lost one: calls go on or are told, and none gets
500."""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import redis

from gateway.core.clock import SystemClock
from gateway.stores.degraded import DegradingStore
from gateway.stores.redis import RedisStore
from tests.fakes.data_plane import House, limit, replica, tenant
from tests.servers import RedisServer

CALLS = 12
SOFT = tenant("soft", limits=(limit("rpm", 10_000),))
HARD = tenant("hard", limits=(limit("rpm", 10_000), limit("day", 10**9)))
COMMAND = re.compile(rb"^\*\d+\r$", re.MULTILINE)
ENDLESS = "while true do end"
REAL = ("out_of_memory", "read_only", "master_down", "busy")
SAID = {
    "loading": b"-LOADING Redis is loading the dataset in memory",
    "refused": b"-NOPERM this user has no permissions to run the 'evalsha' command",
    "no_script": b"-NOSCRIPT No matching script.",
}


def command(server: RedisServer, *words: str | int) -> None:
    with redis.Redis.from_url(server.url, socket_timeout=5) as client:
        client.execute_command(*words)


def run_for_ever(server: RedisServer) -> None:
    client = redis.Redis.from_url(server.url, socket_timeout=60)
    with client, contextlib.suppress(redis.RedisError):
        client.eval(ENDLESS, 0)


def until_busy(server: RedisServer) -> None:
    until_s = time.monotonic() + 10.0
    while time.monotonic() < until_s:
        try:
            command(server, "PING")
        except redis.ResponseError:  # busy
            return
    raise TimeoutError("the script does not run")


@contextlib.contextmanager
def sick(server: RedisServer, sickness: str) -> Iterator[None]:
    match sickness:
        case "out_of_memory":
            command(server, "CONFIG", "SET", "maxmemory", 1)
        case "read_only" | "master_down":
            serves = "yes" if sickness == "read_only" else "no"
            command(server, "CONFIG", "SET", "replica-serve-stale-data", serves)
            command(server, "REPLICAOF", "127.0.0.1", 1)
        case "busy":
            command(server, "CONFIG", "SET", "busy-reply-threshold", 1)
            script = threading.Thread(target=run_for_ever, args=(server,), daemon=True)
            script.start()
            until_busy(server)
    yield
    server.kill()


@contextlib.asynccontextmanager
async def saying(answer: bytes) -> AsyncIterator[str]:
    """A server that answers every command like this."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            writer.write((answer + b"\r\n") * len(COMMAND.findall(data)))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}/0"


async def calls_behind(url: str, directory: Path) -> tuple[Counter[tuple[str, int, str]], str]:
    """(tenant, status, code) of the calls, and why the store is lost."""
    clock, told = SystemClock(), Counter[tuple[str, int, str]]()
    incidents: list[str] = []
    shared = RedisStore(url, clock)
    async with DegradingStore(shared, clock, on_degraded=incidents.append) as store:
        house = House(clock, directory, store=store, tenants=(SOFT, HARD), replicas=[replica("r")])
        await house.open()
        for _ in range(CALLS):
            for slug in ("soft", "hard"):
                answer = await house.call(tenant=slug)
                code = "" if answer.status == 200 else answer.json()["error"]["code"]
                told[slug, answer.status, code] += 1
        assert house.leftovers == {}
        await house.close()
    (why,) = incidents
    return told, why


def judge(told: Counter[tuple[str, int, str]], why: str, sickness: str) -> None:
    assert why.startswith(sickness)
    assert told == {("soft", 200, ""): CALLS, ("hard", 503, "quota_unavailable"): CALLS}


@pytest.mark.parametrize("sickness", REAL)
async def test_a_redis_that_cannot_serve_is_treated_as_lost(
    own_redis: RedisServer, tmp_path: Path, sickness: str
) -> None:
    """Row 30, S40: a real one; who has a hard budget is refused, all others are served."""
    with sick(own_redis, sickness):
        told, why = await calls_behind(own_redis.url, tmp_path)
    judge(told, why, sickness)


@pytest.mark.parametrize("sickness", SAID)
async def test_whatever_a_redis_says_instead_of_an_answer_it_is_treated_as_lost(
    tmp_path: Path, sickness: str
) -> None:
    """Row 30, S40: while it loads, say."""
    async with saying(SAID[sickness]) as url:
        told, why = await calls_behind(url, tmp_path)
    judge(told, why, sickness)
