"""Every replica of a pool refuses connections under load: callers hear it at once, and are served
again once the replicas are back. Through sockets, at the served product."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import pytest

from tests.e2e.installation import Installation
from tests.e2e.open_loop import Told, offered
from tests.e2e.operator import Operator
from tests.e2e.scripted import POOL, in_force, until
from tests.fakes.fault_proxy import FaultProxy, proxying
from tests.fakes.scripted_replica import ScriptedReplica, running
from tests.fakes.scripts import tokens

pytestmark = [pytest.mark.alone, pytest.mark.asyncio(loop_scope="module")]

FULL = "TEST_ALL_DOWN_S" in os.environ
DOWN_S = float(os.environ.get("TEST_ALL_DOWN_S", "1.5"))
UP_S, NOTICED_S, BACK_S = 0.8, 1.0, 12.0
RATE, SLOTS = 40.0, 4  # calls a second: the capacity of three replicas of 4 slots
ANSWER_S = 0.1 if FULL else 0.5


@dataclass(frozen=True, slots=True)
class Fleet:
    replicas: list[ScriptedReplica]
    proxies: list[FaultProxy]

    def set(self, *, down: bool) -> float:
        """When that was."""
        for proxy in self.proxies:
            proxy.set(down=down)
        return time.monotonic()

    async def called(self) -> float:
        """When the first call came."""
        await until(lambda: any(replica.calls for replica in self.replicas))
        return time.monotonic()


@asynccontextmanager
async def fleet(operator: Operator) -> AsyncIterator[Fleet]:
    async with AsyncExitStack() as stack:
        script = tokens(4, ttft_s=0.1, gap_s=0.05)
        replicas = [await stack.enter_async_context(running(script)) for _ in range(3)]
        proxies = [await stack.enter_async_context(proxying(each.url)) for each in replicas]
        for number, proxy in enumerate(proxies):
            facts = {"slug": f"down-{number}", "pool": POOL, "kind": "vllm", "slots": SLOTS}
            await asyncio.to_thread(operator.post, "/replicas", base_url=proxy.url, **facts)
        await until(lambda: all(each.received for each in replicas))
        yield Fleet(replicas, proxies)
        for number in range(3):
            removal = await asyncio.to_thread(operator.delete, f"/replicas/down-{number}")
        await in_force(operator.place, removal["config_version"])


async def test_a_pool_that_is_down_refuses_at_once_and_serves_all_within_ten_seconds(
    estate: Installation, operator: Operator
) -> None:
    """Row 50: in the suite the refusals, at full size also the return. Refusals count from
    NOTICED_S after the fall."""
    over_s = UP_S + DOWN_S + (BACK_S if FULL else 0.0)
    async with fleet(operator) as pool:
        load = asyncio.create_task(offered(estate, POOL, [(RATE, over_s)], tokens=8))
        began_s = await pool.called()
        await asyncio.sleep(UP_S)
        down_s = pool.set(down=True) - began_s
        deepest = 0.0
        while time.monotonic() < began_s + UP_S + DOWN_S:
            depth = await asyncio.to_thread(estate.series, "fairway_queue_depth", pool=POOL)
            deepest = max(deepest, depth)
            await asyncio.sleep(0.1)
        back_s = pool.set(down=False) - began_s
        calls = (await load).calls
    _refused_at_once([each for each in calls if down_s + NOTICED_S <= each.sent_s < back_s])
    assert deepest <= 2 * RATE
    if FULL:
        lost_s = [each.sent_s - back_s for each in calls if each.sent_s >= back_s and each.refused]
        print(f"at most {deepest:.0f} queued; the last loss {max(lost_s):.1f} s after the return")
        assert max(lost_s) <= 10.0


def _refused_at_once(refused: list[Told]) -> None:
    slowest_s = max(each.status_s for each in refused)
    print(f"{len(refused)} refused, slowest after {slowest_s * 1000:.0f} ms")
    assert {(each.status, each.reason) for each in refused} == {(503, "no_replica")}
    assert slowest_s <= ANSWER_S
