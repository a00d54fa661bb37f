"""The disk takes nothing more while the database is silent: no call record may be lost unseen."""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Iterator

import psycopg
import pytest

from tests.e2e.installation import Installation
from tests.e2e.load import asked_until, load
from tests.e2e.operator import Operator, unlimited
from tests.e2e.streams import Stream
from tests.servers import PostgresServer, wait_until

SOFT, HARD = "acme", "heavy-labs"
CALLS = 30
JOURNAL, DROPPED = "journal", "fairway_ledger_dropped_total"


@pytest.fixture
def place(durable: Installation, durable_operator: Operator) -> Installation:
    """One tenant that has paid in advance, one without such a budget."""
    unlimited(durable, HARD)
    granted = {"amount_microcredits": 10**9, "why": "test"}
    told = durable_operator.post(f"/tenants/{HARD}/credit/grants", **granted)
    version = told["config_version"]
    wait_until(lambda: durable.series("fairway_config_version") >= version, "the credit")
    return durable


@contextlib.contextmanager
def full_disk(place: Installation) -> Iterator[None]:
    """Every write to a file of the gateway fails, that of its log too."""
    assert place.serving is not None
    before = resource.prlimit(place.serving.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(place.serving.pid, resource.RLIMIT_FSIZE, (1, before[1]))
    try:
        yield
    finally:
        resource.prlimit(place.serving.pid, resource.RLIMIT_FSIZE, before)


async def test_a_full_disk_refuses_hard_budgets_and_loses_no_record_unseen(
    place: Installation, postgres_server: PostgresServer
) -> None:
    """Row 35"""
    postgres_server.freeze()
    try:
        with full_disk(place):
            first = await _calls(place, SOFT, 1)
            await asked_until(lambda: JOURNAL in place.degraded())
            soft = first + await _calls(place, SOFT, CALLS)
            hard = await _calls(place, HARD, 5)
            why = place.degraded()[JOURNAL]
    finally:
        postgres_server.thaw()
    assert all(one.done for one in soft)
    assert {(one.status, one.reason) for one in hard} == {(503, "quota_unavailable")}
    ended = [one.call_id for one in (*soft, *hard)]
    await asked_until(lambda: JOURNAL not in place.degraded(), 15)
    await asked_until(lambda: _gap(place, ended) == place.series(DROPPED), 15)
    print(f"{why}; {len(ended)} calls, {_gap(place, ended)} without a row, as counted")
    assert all(one.done for one in await _calls(place, HARD, 1))


async def _calls(place: Installation, tenant: str, count: int) -> list[Stream]:
    async with load(place) as running:
        for _ in range(count):
            running.send(3, key=place.key_of(tenant))
        return await running.ended()


def _gap(place: Installation, calls: list[str]) -> int:
    """Calls that an auditor misses."""
    query = "select count(*) from tenants_ledgercall where call_id = any(%s)"
    with psycopg.connect(place.env["DATABASE_URL"]) as connection:
        found = connection.execute(query, [calls]).fetchone()
    assert found is not None
    return len(calls) - int(found[0])
