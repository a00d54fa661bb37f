"""kill -9 of the gateway: what clients got is what the ledger charges, and nothing stays
reserved."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from tests.e2e.installation import Installation, installed
from tests.e2e.streams import Stream
from tests.servers import RedisServer, wait_until

pytestmark = pytest.mark.alone

STREAMS = 30
TOKENS_OF_ONE_READ = 4  # frames that one read from the replica may carry


@pytest.fixture(params=["memory", "redis"])
def place(
    request: pytest.FixtureRequest, tmp_path: Path, redis_server: RedisServer
) -> Iterator[Installation]:
    redis_server.flush()
    store = {"REDIS_URL": redis_server.url} if request.param == "redis" else {}
    with installed(tmp_path, sequences=32, **store) as it:
        it.serve()
        yield it


async def test_killed_gateway_charges_what_its_clients_got(place: Installation) -> None:
    """Row 16, F16"""
    streams = [Stream() for _ in range(STREAMS)]
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        tasks = [asyncio.create_task(one.run(session, place, tokens=2000)) for one in streams]
        await asyncio.gather(*(one.began.wait() for one in streams))
        await asyncio.sleep(1.0)  # streaming, the subject of this test
        assert place.serving is not None
        place.serving.kill()
        await asyncio.gather(*tasks)
    assert all(one.broken and not one.done and one.tokens > 0 for one in streams)
    await asyncio.to_thread(place.serve)
    charged = await asyncio.to_thread(_charged, place.var, STREAMS)
    for one in streams:
        above = charged[one.call_id] - one.tokens
        assert 0 <= above <= TOKENS_OF_ONE_READ, (one.call_id, charged[one.call_id], one.tokens)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        again = [Stream().run(session, place, tokens=5) for _ in range(STREAMS)]
        assert all(one.done for one in await asyncio.gather(*again))


def _charged(var: Path, calls: int) -> dict[str, int]:
    """Completion tokens by call, once the ledger has all of them."""
    rows: dict[str, int] = {}

    def read() -> bool:
        with sqlite3.connect(var / "fairway.sqlite3", timeout=20) as database:
            found = database.execute(
                "SELECT call_id, completion_tokens FROM tenants_ledgercall"
            ).fetchall()
        rows.update(found)
        return len(rows) >= calls

    wait_until(read, f"{calls} ledger rows, found {json.dumps(rows)}", 20)
    return rows
