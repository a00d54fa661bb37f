"""PostgreSQL crashes and freezes under load: calls go on, no record is lost, pages end in time."""

from __future__ import annotations

import asyncio
import os
import time

import psycopg
import pytest

from tests.e2e.installation import Installation
from tests.e2e.load import asked_until, steady_load
from tests.e2e.operator import Operator, Refused
from tests.servers import PostgresServer, wait_until

pytestmark = pytest.mark.alone

RATE = 20.0
TOKENS = 5
FROZEN_S = float(os.environ.get("TEST_POSTGRESQL_FREEZE_S", "6"))
PAGES, PAGE_S = ("/me", "/tenants", "/pools"), 3.0
SPOOL_EMPTY_S = 10.0


async def test_calls_and_their_records_survive_a_crash_of_the_database(
    durable: Installation, durable_operator: Operator, postgres_server: PostgresServer
) -> None:
    """Row 33"""
    async with steady_load(durable, RATE, TOKENS) as running:
        await asyncio.sleep(1.0)  # load
        await asyncio.to_thread(postgres_server.stop, "immediate")
        await asked_until(lambda: bool(durable.degraded()), 10)
        parts = durable.degraded()
        await asyncio.to_thread(postgres_server.start)
        back_s = time.monotonic()
        await asyncio.sleep(1.0)  # load again
    assert all(one.done for one in running.streams)
    calls = [one.call_id for one in running.streams]
    await asyncio.to_thread(_recorded, durable, calls)
    spooled_s = time.monotonic() - back_s
    wait_until(lambda: not durable.degraded(), "the restored database", 10)
    assert spooled_s <= SPOOL_EMPTY_S
    print(f"{len(calls)} calls, 0 errors, all in the ledger {spooled_s:.1f} s after its return")
    assert {"database", "ledger"} & set(parts)


async def test_calls_go_on_and_pages_give_up_while_the_database_is_frozen(
    durable: Installation, durable_operator: Operator, postgres_server: PostgresServer
) -> None:
    """Row 34"""
    async with steady_load(durable, RATE, TOKENS) as running:
        await asyncio.sleep(0.5)  # load
        await asyncio.to_thread(postgres_server.freeze)
        frozen_s = time.monotonic()
        try:
            pages = await asyncio.gather(
                *(
                    asyncio.to_thread(_page, durable_operator, path)
                    for path in ("/me", "/tenants", "/pools")
                )
            )
            await asyncio.sleep(max(0.0, frozen_s + FROZEN_S - time.monotonic()))
            parts = durable.degraded()
        finally:
            await asyncio.to_thread(postgres_server.thaw)
        await asyncio.sleep(0.5)  # load again
    assert all(one.done for one in running.streams)
    assert "database" in parts
    await asyncio.to_thread(_recorded, durable, [one.call_id for one in running.streams])
    wait_until(lambda: not durable.degraded(), "the restored database", 10)
    worst = max(one.ttft_s for one in running.streams)
    print(f"{len(running.streams)} calls, 0 errors, worst TTFT {worst:.2f} s; pages {pages}")
    assert all(status == 503 and took_s <= PAGE_S + 0.5 for status, took_s in pages), pages


def _page(olga: Operator, path: str) -> tuple[int, float]:
    """(status, seconds)"""
    began_s = time.monotonic()
    try:
        olga.get(path)
    except Refused as refused:
        return refused.status, round(time.monotonic() - began_s, 2)
    return 200, round(time.monotonic() - began_s, 2)


def _recorded(place: Installation, calls: list[str]) -> None:
    """Each call has exactly one row."""
    query = "select call_id from tenants_ledgercall where call_id = any(%s)"
    with psycopg.connect(place.env["DATABASE_URL"], autocommit=True) as connection:
        wait_until(
            lambda: len(connection.execute(query, [calls]).fetchall()) == len(calls),
            "the last row",
            SPOOL_EMPTY_S,
        )
