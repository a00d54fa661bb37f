"""Redis frozen under load: nobody waits for it, the degraded part is named, and afterwards the
buckets say what the ledger says.

``TEST_REDIS_PAUSE_S=20`` runs it at full size.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.e2e.installation import Installation, installed
from tests.e2e.load import asked_until, percentile, steady_load
from tests.e2e.operator import operator_of
from tests.e2e.streams import Stream
from tests.servers import RedisServer, wait_until

pytestmark = pytest.mark.alone

PAUSE_S = float(os.environ.get("TEST_REDIS_PAUSE_S", "5"))
RATE = 20.0
TOKENS = 5
CLOSES_WITHIN_S = 2.0
WAIT_S = 0.25


@pytest.fixture
def place(tmp_path: Path, redis_server: RedisServer) -> Iterator[Installation]:
    redis_server.flush()
    with installed(tmp_path, sequences=32, REDIS_URL=redis_server.url) as it:
        it.serve()
        yield it


async def test_calls_go_on_while_redis_is_frozen_and_the_buckets_are_right_afterwards(
    place: Installation, redis_server: RedisServer
) -> None:
    """G19, row 25: acme has a budget of tokens that goes on, date-desk prepaid credit that fails
    closed."""
    limits = _limits(place)
    wait_until(lambda: place.series("fairway_config_version") >= limits, "the limits")
    hard = place.key_of("date-desk")
    async with steady_load(place, RATE, TOKENS) as soft:
        async with steady_load(place, RATE / 4, TOKENS, key=hard) as strict:
            await asyncio.sleep(1.5)  # load with Redis: what the pause is compared with
            redis_server.freeze()
            frozen_s = time.monotonic()
            try:
                told_s = await asked_until(lambda: "quota_store" in place.degraded(), 5)
                await asyncio.sleep(PAUSE_S - (time.monotonic() - frozen_s))
            finally:
                redis_server.thaw()
                thawed_s = time.monotonic()
            closed_s = await asked_until(lambda: not place.degraded(), 10)
            await asyncio.sleep(1.0)  # load again
    during = [one for one in soft.streams if frozen_s <= one.sent_s < thawed_s]
    assert all(one.done for one in soft.streams), _refusals(soft.streams)
    before = percentile([one.ttft_s for one in soft.streams if one.sent_s < frozen_s], 0.5)
    worst = max(one.ttft_s for one in during)
    refused = [one for one in strict.streams if not one.done]
    assert all((one.status, one.reason) == (503, "quota_unavailable") for one in refused)
    assert all(int(one.headers["retry-after"]) >= 1 for one in refused)
    sure = [s for s in strict.streams if frozen_s + told_s + 0.2 < s.sent_s < thawed_s]
    assert sure
    assert all(one in refused for one in sure)
    assert all(one.done for one in strict.streams if one.sent_s > thawed_s + closed_s)
    assert closed_s <= CLOSES_WITHIN_S
    print(
        f"paused {PAUSE_S:.0f} s: {len(soft.streams)} calls without an error, TTFT median before "
        f"{before:.3f} s, worst during {worst:.3f} s; declared after {told_s:.2f} s, closed "
        f"{closed_s:.2f} s after the return; {len(refused)} hard-budget calls refused"
    )
    assert worst <= before + WAIT_S + 0.25  # what a busy machine adds
    await asyncio.to_thread(_reconciled, place, redis_server)


def _limits(place: Installation) -> int:
    """The version of the configuration with them."""
    olga = operator_of(place)
    for meter, amount in {"tpm": 10**9, "rpm": 10**7, "concurrent": 10**5}.items():
        for tenant in ("acme", "date-desk"):
            olga.put(f"/tenants/{tenant}/limits", meter=meter, amount=amount, klass="online")
    olga.put("/tenants/acme/limits", meter="month", amount=10**9, klass="online")
    told = olga.post("/tenants/date-desk/credit/grants", amount_microcredits=10**9, why="test")
    return int(told["config_version"])


def _reconciled(place: Installation, server: RedisServer) -> None:
    """The buckets of budgets equal what the ledger says, and nothing is held any more."""
    client: Any = redis.Redis.from_url(server.url, decode_responses=True)
    olga = operator_of(place)
    told: dict[str, float] = {}

    def used(pattern: str) -> float:
        return sum(float(client.hget(name, "used") or 0) for name in client.scan_iter(pattern))

    def equal() -> bool:
        (usage,) = olga.get("/tenants/acme/usage?by=tenant")
        told["tokens"] = usage["prompt_tokens"] + usage["completion_tokens"]
        told["in the bucket"] = used("*acme*month*")
        told["credit"] = olga.get("/tenants/date-desk/credit")["charged"]
        told["in its bucket"] = used("*date-desk*credit*")
        return told["tokens"] == told["in the bucket"] and told["credit"] == told["in its bucket"]

    try:
        wait_until(equal, "the bucket that equals the ledger", 10)
    finally:
        client.close()
        print("reconciled", told)
    assert told["tokens"] > 0 < told["credit"]


def _refusals(streams: list[Stream]) -> list[tuple[int, str]]:
    return [(one.status, one.reason) for one in streams if not one.done]
