"""What does quota cost a call? CPU of reserve and settle, in memory and in Redis.

python -m benchmarks.quota_stores [redis URL]
"""

from __future__ import annotations

import asyncio
import sys
import time

from gateway.core.clock import SystemClock
from gateway.core.dispatch.effects import Usage
from gateway.core.limits.demands import QuotaStore
from gateway.core.limits.limit import Limit
from gateway.core.limits.plan import CallSize, Payer, Place, actual_for, demands_for
from gateway.core.priority import PriorityClass
from gateway.stores.memory import MemoryStore
from gateway.stores.redis import RedisStore

LIMITS = tuple(Limit(meter, 1e12) for meter in ("tpm", "rpm", "concurrent", "day", "month"))
KEY_LIMITS = (Limit("rpm", 1e12),)
PLACE = Place("pool", PriorityClass.STANDARD)
SIZE = CallSize(input_tokens=300, output_tokens=256, prompt_bytes=1_200)
TENANTS = 50


async def one_call(store: QuotaStore, number: int) -> None:
    payer = Payer(f"tenant{number % TENANTS}", "key", LIMITS, KEY_LIMITS)
    demands = demands_for(payer, PLACE, SIZE, wall_s=time.time())
    call_id = f"call-{time.monotonic_ns()}-{number}"
    await store.reserve(call_id, demands)
    owed = actual_for(
        [d.key for d in demands], Usage(310, 0, 200), cached_ratio=1.0, prices=payer.prices
    )
    await store.settle(call_id, owed)


async def measure(name: str, store: QuotaStore, *, calls: int, at_once: int) -> None:
    waits_s: list[float] = []

    async def worker(first: int) -> None:
        for number in range(first, calls, at_once):
            begin = time.perf_counter()
            await one_call(store, number)
            waits_s.append(time.perf_counter() - begin)

    wall_s, cpu_s = time.perf_counter(), time.process_time()
    await asyncio.gather(*(worker(first) for first in range(at_once)))
    wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
    waits_s.sort()
    print(
        f"{name:8} at once {at_once:3}: CPU {cpu_s / calls * 1e6:6.0f} us per call"
        f" (plan, reserve, settle; 6 buckets), {calls / wall_s:6.0f} calls/s,"
        f" p50 {waits_s[calls // 2] * 1e3:.2f} ms, p99 {waits_s[calls * 99 // 100] * 1e3:.2f} ms"
    )


async def main(redis_url: str | None) -> None:
    await measure("memory", MemoryStore(SystemClock()), calls=20_000, at_once=1)
    if redis_url is None:
        return
    store = RedisStore(redis_url, SystemClock(), timeout_s=5)
    for at_once in (1, 16, 50):
        await measure("redis", store, calls=5_000, at_once=at_once)
    await store.aclose()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else None))
