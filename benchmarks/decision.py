"""What does one scheduling decision cost, and what does it grow with?

One decision = a call ends, the next one is chosen, placed, explained and begins, and a new one is
queued behind it: release, grant, first event and submit. Prompts have 20 blocks, most of them the
tenant's own system prompt; what a replica reports as cached is what was predicted. Time moves by
0.2 ms per decision.

  queued  all slots are taken and N calls wait: a slot that is freed is the only one, so the queue
          decides and the routing policy is not asked
  open    half of the slots are taken, nothing waits: every replica is open, the policy decides

Printed are median and 99th percentile of single decisions, in microseconds and as multiples of a
calibration in the same run (100 function calls that store into a dict), since machines differ and
shared ones waver. Time is CPU time of the thread. No network, no event loop.

    python -m benchmarks.decision
"""

from __future__ import annotations

import gc
import random
import statistics
from dataclasses import dataclass
from time import thread_time_ns
from typing import Any

from gateway.core.caches.prefix_chain import PrefixChain
from gateway.core.dispatch.dispatcher import Dispatcher
from gateway.core.dispatch.effects import Grant, PoolConfig, ReplicaConfig, Ticket, Usage
from gateway.core.priority import PriorityClass

TENANTS = 100
REPLICAS = 8
SLOTS = 32
QUEUED = 10_000
BLOCKS = 20  # of a prompt, 64 tokens each
DECISIONS = 1_500
ROUNDS = 5
BETWEEN_S = 0.0002
FOREVER_S = 1e9  # waits are predicted for every call, and none is too long
POLICIES = ("bounded", "least_cost", "round_robin")


class Bench:
    """``open_ratio``: part of the slots that stays free; then nothing waits."""

    def __init__(
        self,
        queued: int = QUEUED,
        *,
        routing: str = "bounded",
        tenants: int = TENANTS,
        replicas: int = REPLICAS,
        open_ratio: float = 0.0,
    ) -> None:
        config = PoolConfig(
            replicas=tuple(ReplicaConfig(f"r{number}", SLOTS) for number in range(replicas)),
            weights={f"t{number}": 1.0 + number % 3 for number in range(tenants)},
            routing=routing,
            queue_calls_per_tenant=10**9,
            queue_calls_per_class=10**9,
            wait_limit_s=(FOREVER_S, FOREVER_S, FOREVER_S),
            ttft_objective_s=(FOREVER_S, FOREVER_S, FOREVER_S),
        )
        self.tenants = tenants
        self.rng = random.Random(1)
        self.pool = Dispatcher("bench", config, self.rng, 0.0)
        self.running: list[Grant] = []
        self.sent = 0
        self.now_s = 0.0
        while len(self.running) < (1.0 - open_ratio) * replicas * SLOTS:
            self.submit(self.ticket())
        for _ in range(queued):
            self.submit(self.ticket())

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
            deadline_s=FOREVER_S,
            input_tokens=self.rng.randrange(10, 4_000),
            output_tokens=self.rng.randrange(1, 500),
            body_bytes=1_000,
        )

    def prompt(self, tenant: int) -> PrefixChain:
        """Four of five blocks are the tenant's own system prompt."""
        shared = tuple(BLOCKS * tenant + block for block in range(BLOCKS * 4 // 5))
        own = tuple(self.rng.getrandbits(64) for _ in range(BLOCKS // 5))
        return PrefixChain(shared + own, 64.0)

    def submit(self, ticket: Ticket) -> None:
        self.take(self.pool.submit(ticket, self.now_s))

    def take(self, effects: object) -> None:
        assert isinstance(effects, list)
        for effect in effects:
            if isinstance(effect, Grant):
                self.running.append(effect)
                self.take(self.pool.first_event(effect.grant_id, self.now_s))

    def decide(self, ended: Grant, ticket: Ticket) -> None:
        self.now_s += BETWEEN_S
        usage = Usage(1_000, ended.predicted_cached_tokens, 100)
        self.take(self.pool.release(ended.grant_id, usage, self.now_s))
        self.take(self.pool.submit(ticket, self.now_s))

    def pop_running(self) -> Grant:
        """One of those in flight, at random."""
        place = self.rng.randrange(len(self.running))
        self.running[place], self.running[-1] = self.running[-1], self.running[place]
        return self.running.pop()

    def round_ns(self) -> list[int]:
        """Nanoseconds of each of the decisions of one round."""
        taken_ns = []
        for ticket in [self.ticket() for _ in range(DECISIONS)]:
            ended = self.pop_running()
            began_ns = thread_time_ns()
            self.decide(ended, ticket)
            taken_ns.append(thread_time_ns() - began_ns)
        return taken_ns


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one decision. ``unit_us``: of the calibration in the same minute."""

    p50_us: float
    p99_us: float
    unit_us: float

    def __str__(self) -> str:
        return (
            f"p50 {self.p50_us:6.1f} us ({self.p50_us / self.unit_us:5.1f} units)"
            f"  p99 {self.p99_us:6.1f} us ({self.p99_us / self.unit_us:5.1f} units)"
        )


def _successor(number: int) -> int:
    return number + 1


def unit_us() -> float:
    """Microseconds of 100 function calls that store into a dict; the median of many."""
    stored: dict[int, int] = {}
    taken_ns = []
    for _ in range(200):
        began_ns = thread_time_ns()
        for number in range(100):
            stored[number] = _successor(number)
        taken_ns.append(thread_time_ns() - began_ns)
    return statistics.median(taken_ns) / 1e3


def measure(queued: int = QUEUED, **settings: Any) -> Cost:
    """As in the server, what is there from the start is no matter of the garbage collector."""
    bench = Bench(queued, **settings)
    bench.round_ns()
    gc.collect()
    gc.freeze()
    taken_ns, units_us = [], []
    for _ in range(ROUNDS):
        units_us.append(unit_us())
        taken_ns += bench.round_ns()
    gc.unfreeze()
    hundredths = statistics.quantiles(taken_ns, n=100)
    return Cost(hundredths[49] / 1e3, hundredths[98] / 1e3, statistics.median(units_us))


def main() -> None:
    print(f"{SLOTS} slots per replica; one unit = {unit_us():.1f} us now")
    print(f"by queue length: bounded, {TENANTS} tenants, {REPLICAS} replicas")
    for queued in (1_000, 10_000, 100_000):
        print(f"  {queued:>7} queued   {measure(queued)}")
    for replicas in (8, 64):
        print(f"by tenants: {QUEUED:,} queued, {replicas} replicas")
        for routing in POLICIES:
            for tenants in (100, 1_000, 10_000):
                cost = measure(routing=routing, tenants=tenants, replicas=replicas)
                print(f"  {routing:<12} {tenants:>6} tenants   {cost}")
        print(f"by policy: half of the slots open, {TENANTS} tenants, {replicas} replicas")
        for routing in POLICIES:
            print(
                f"  {routing:<12} {measure(0, routing=routing, replicas=replicas, open_ratio=0.5)}"
            )


if __name__ == "__main__":
    main()
