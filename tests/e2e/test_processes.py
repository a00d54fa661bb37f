"""What is revoked is revoked on every process: they share a database, all but one a Redis.

Changes made on one that has the Redis are pushed to the others that have it. The last one has none,
so that nothing is pushed to it or from it: it stands for a push that is blocked.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest

from tenants import key_format
from tests.e2e.installation import Installation, pool, prepared, simulated
from tests.e2e.load import Load, load
from tests.e2e.operator import Operator, operator_of
from tests.e2e.streams import Stream
from tests.servers import RedisServer, free_port

PROCESSES = int(os.environ.get("TEST_PROCESSES", "2"))
LAST = PROCESSES - 1
RATE = 12.0  # calls a second to each process
PUSHED_S = 1.0
BLOCKED_S = 5.0
CUT_S = 10.0
NEW_KEY_S = 5.0
AFTER_S = 1.5  # under load, after the change
SLOTS = 32
LONG = 4_000  # tokens
REFUSED = {(401, "invalid_api_key")}


@pytest.fixture(scope="module")
def processes(
    tmp_path_factory: pytest.TempPathFactory, redis_server: RedisServer
) -> Iterator[list[Installation]]:
    var = tmp_path_factory.mktemp("processes")
    with simulated(var, sequences=SLOTS) as replicas:
        with prepared(var, [pool("sim", replicas, SLOTS)]) as first:
            first.env |= {"REDIS_URL": redis_server.url}
            shared = {"DATABASE_URL": f"sqlite:///{var / 'fairway.sqlite3'}"}
            places = [first]
            for number in range(2, PROCESSES + 1):
                own = tmp_path_factory.mktemp(f"process-{number}")
                redis = "" if number == PROCESSES else redis_server.url
                env = {**first.env, **shared, "FAIRWAY_VAR_DIR": str(own), "REDIS_URL": redis}
                places.append(replace(first, var=own, port=free_port(), env=env))
            try:
                for place in places:
                    place.serve()
                yield places
            finally:
                for place in places:
                    place.end()


@pytest.mark.parametrize("through", [0, LAST], ids=["pushed", "push blocked"])
async def test_a_revoked_key_ends_on_every_process(
    processes: list[Installation], through: int
) -> None:
    """S06, I11; seconds from the answer to the revocation to the sending of the last call that was
    admitted, and to the end of the streams that ran."""
    operator = await asyncio.to_thread(operator_of, processes[through])
    key_id, secret = await asyncio.to_thread(_new_key, operator, f"revoked-{through}")
    async with AsyncExitStack() as stack:
        loads = [await stack.enter_async_context(load(place)) for place in processes]
        await _all_take(loads, secret)
        long: list[list[Stream]] = [[one.send(LONG, key=secret)] for one in loads]
        await asyncio.gather(*(streams[0].began.wait() for streams in long))
        sending = [asyncio.create_task(one.steady(RATE, 2, key=secret)) for one in loads]
        sending += [
            asyncio.create_task(_streaming(one, secret, streams))
            for one, streams in zip(loads, long, strict=True)
        ]
        await asyncio.sleep(0.5)  # under load, the subject of this test
        path = f"/tenants/revoked-{through}/keys/{key_id}/disable"
        await asyncio.to_thread(operator.post, path)
        committed_s = operator.committed_s
        await asyncio.sleep(AFTER_S)
        for task in sending:
            task.cancel()
        await asyncio.gather(*sending, return_exceptions=True)
        streams = [await one.ended() for one in loads]
    bounds_s = [BLOCKED_S if LAST in (place, through) else PUSHED_S for place in range(PROCESSES)]
    for place, bound_s in enumerate(bounds_s):
        last_s = max(one.sent_s for one in streams[place] if one.status == 200) - committed_s
        cut = [one for one in long[place] if one.status == 200][-1]
        cut_s = cut.ended_s - committed_s
        print(f"process {place}: last call admitted {last_s:+.2f} s, stream cut {cut_s:.2f} s")
        assert last_s <= bound_s
        assert (cut.done, b'"error"' in cut.body) == (False, True)
        assert cut_s <= CUT_S
        refused = [one for one in streams[place] if one.status != 200]
        assert {(one.status, one.reason) for one in refused if one.sent_s > committed_s} == REFUSED


async def test_a_new_key_is_not_hidden_by_the_wrong_ones_before_it(
    processes: list[Installation],
) -> None:
    """S06: each process has just refused wrong keys of this address, up to 429."""
    operator = await asyncio.to_thread(operator_of, processes[0])
    await asyncio.to_thread(_new_key, operator, "newcomers")
    async with AsyncExitStack() as stack:
        loads = [await stack.enter_async_context(load(place)) for place in processes]
        for one in loads:
            for _ in range(25):
                one.send(1, key=key_format.generate()[0])
            assert {each.status for each in await one.ended()} <= {401, 429}
        told = await asyncio.to_thread(operator.post, "/tenants/newcomers/keys", label="n")
        took_s = await _all_take(loads, told["api_key"], since_s=operator.committed_s)
    print(f"a new key is known to every process after {took_s:.2f} s")
    assert took_s <= NEW_KEY_S


async def _streaming(one: Load, key: str, streams: list[Stream]) -> None:
    """A long stream runs at every moment, until one is refused."""
    while streams[-1].status in (0, 200):
        await streams[-1].ended.wait()
        streams.append(one.send(LONG, key=key))


def _new_key(operator: Operator, slug: str) -> tuple[str, str]:
    operator.post("/tenants", name=slug, slug=slug, plan="enterprise", why="test")
    key = operator.post(f"/tenants/{slug}/keys", label="k")
    return key["key_id"], key["api_key"]


async def _all_take(loads: list[Load], key: str, *, since_s: float = 0.0) -> float:
    """Returns once every process serves this key: seconds since then."""
    for one in loads:
        until_s = time.monotonic() + 10.0
        while (await _asked(one, key)).status != 200:
            assert time.monotonic() < until_s
            await asyncio.sleep(0.02)
    return time.monotonic() - since_s


async def _asked(one: Load, key: str) -> Stream:
    stream = one.send(1, key=key)
    await stream.ended.wait()
    return stream
