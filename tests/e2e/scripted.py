"""A scripted replica on a socket of this process, behind the pool ``scripted`` of an installation.

Added and removed at run time through the control API, as an operator does.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from tests.e2e.installation import Installation
from tests.e2e.operator import Operator
from tests.fakes.scripted_replica import ScriptedReplica, running

POOL = "scripted"
_numbers = itertools.count(1)


@asynccontextmanager
async def scripted(
    operator: Operator, *, slots: int = 8, **terms: Any
) -> AsyncIterator[ScriptedReplica]:
    """Returns once the gateway knows that it serves."""
    slug = f"scripted-{next(_numbers)}"
    async with running() as replica:
        facts = {"slug": slug, "pool": POOL, "kind": "vllm", "base_url": replica.url}
        await asyncio.to_thread(operator.post, "/replicas", **facts, slots=slots, **terms)
        await until(lambda: any(each.path == "/health" for each in replica.received))
        try:
            yield replica
        finally:
            removal = await asyncio.to_thread(operator.delete, f"/replicas/{slug}")
            await in_force(operator.place, removal["config_version"])
            with contextlib.suppress(TimeoutError):  # scripts that hang for ever
                await until(lambda: replica.open_calls == 0, 0.5)


async def in_force(place: Installation, version: int) -> None:
    """Returns once the gateway serves this version of the configuration."""

    def version_now() -> float:
        return place.series("fairway_config_version")

    async with asyncio.timeout(30):
        while await asyncio.to_thread(version_now) < version:
            await asyncio.sleep(0.01)


async def until(happened: Callable[[], bool], within_s: float = 30.0) -> float:
    """Looks every 5 ms. Returns seconds until it happened; raises TimeoutError."""
    began_s = time.monotonic()
    async with asyncio.timeout(within_s):
        while not happened():
            await asyncio.sleep(0.005)
    return time.monotonic() - began_s
