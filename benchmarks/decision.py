"""What does one scheduling decision cost, and does it grow with the queue?

A pool of 1,000 tenants and 100 replicas, all slots taken, N calls waiting. One decision = a call
ends, the next one is chosen, placed and begins, and a new one is queued behind it; prompts have 20
blocks, most of them the tenant's own system prompt. Printed is
the CPU time of the thread per decision, median of five rounds, without any network.

    python -m benchmarks.decision
"""

from __future__ import annotations

import random
import statistics
import time
from typing import Any

from gateway.core.caches.prefix_chain import PrefixChain
from gateway.core.dispatch.dispatcher import Dispatcher
from gateway.core.dispatch.effects import Grant, PoolConfig, ReplicaConfig, Ticket, Usage
from gateway.core.priority import PriorityClass

TENANTS = 1_000
REPLICAS = 100
SLOTS = 32
QUEUED = (1_000, 10_000, 100_000)
BLOCKS = 20  # of a prompt, 64 tokens each
DECISIONS = 5_000
ROUNDS = 5


class Bench:
    def __init__(self, queued: int, *, routing: str = "bounded", tenants: int = TENANTS) -> None:
        config = PoolConfig(
            replicas=tuple(ReplicaConfig(f"r{number}", SLOTS) for number in range(REPLICAS)),
            weights={f"t{number}": 1.0 + number % 3 for number in range(tenants)},
            routing=routing,
            queue_calls_per_tenant=10**9,
            queue_calls_per_class=10**9,
            shed_wait_ratio=0.0,
        )
        self.tenants = tenants
        self.rng = random.Random(1)
        self.pool = Dispatcher("bench", config, self.rng, 0.0)
        self.running: list[int] = []
        self.sent = 0
        while len(self.running) < REPLICAS * SLOTS:
            self.submit()
        for _ in range(queued):
            self.submit()

    def ticket(self) -> Ticket:
        self.sent += 1
        tenant = self.rng.randrange(self.tenants)
        return Ticket(
            call_id=f"c{self.sent}",
            tenant=f"t{tenant}",
            prefix=self.prompt(tenant),
            key_id="k",
            klass=PriorityClass(self.rng.randrange(3)),
            arrived_s=0.0,
            deadline_s=1e9,
            input_tokens=self.rng.randrange(10, 4_000),
            output_tokens=self.rng.randrange(1, 500),
            body_bytes=1_000,
        )

    def prompt(self, tenant: int) -> PrefixChain:
        """Four of five blocks are the tenant's own system prompt."""
        shared = tuple(BLOCKS * tenant + block for block in range(BLOCKS * 4 // 5))
        own = tuple(self.rng.getrandbits(64) for _ in range(BLOCKS // 5))
        return PrefixChain(shared + own, 64.0)

    def submit(self) -> None:
        self.take(self.pool.submit(self.ticket(), 0.0))

    def take(self, effects: object) -> None:
        assert isinstance(effects, list)
        for effect in effects:
            if isinstance(effect, Grant):
                self.running.append(effect.grant_id)
                self.take(self.pool.first_event(effect.grant_id, 1.0))

    def round_us(self) -> float:
        """Microseconds of thread time per decision."""
        tickets = [self.ticket() for _ in range(DECISIONS)]
        ends = [self.rng.randrange(REPLICAS * SLOTS) for _ in range(DECISIONS)]
        usage = Usage(1_000, 200, 100)
        started = time.thread_time()
        for ticket, end in zip(tickets, ends, strict=True):
            grant_id = self.running[end]
            self.running[end] = self.running[-1]
            self.running.pop()
            self.take(self.pool.release(grant_id, usage, 1.0))
            self.take(self.pool.submit(ticket, 1.0))
        return (time.thread_time() - started) / DECISIONS * 1e6


def measure_us(queued: int, **settings: Any) -> float:
    bench = Bench(queued, **settings)
    return statistics.median(bench.round_us() for _ in range(ROUNDS))


def main() -> None:
    print(f"{TENANTS} tenants, {REPLICAS} replicas x {SLOTS} slots, thread time per decision")
    for queued in QUEUED:
        print(f"  {queued:>7} calls waiting: {measure_us(queued):6.1f} us")
    for routing in ("least_cost", "least_inflight"):
        cost_us = measure_us(10_000, routing=routing)
        print(f"  {routing}, 10,000 calls waiting: {cost_us:6.1f} us")
    for tenants in (100, 10_000):
        print(
            f"  {tenants:>7} tenants, 10,000 waiting: {measure_us(10_000, tenants=tenants):6.1f} us"
        )


if __name__ == "__main__":
    main()
