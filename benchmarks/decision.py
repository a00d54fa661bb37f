"""What does one scheduling decision cost, and what does it grow with?

A call ends, the next one is chosen, placed, explained and begins, and a new one is queued behind
it.

  decision  which call goes next, and to which replica: class, tenant, call, place
  event     the one that grants, with all that is counted for the call that ends and the one that
            begins: the release of the former or, with slots to spare, the submission of the latter
  whole     release, submission and first event: all that the dispatcher does for one call

Prompts have 20 blocks, most of them the tenant's own system prompt; what a replica reports as
cached is what was predicted. Time moves by 0.2 ms per call.

  queued  all slots are taken and N calls wait: a slot that is freed is the only one, so the queue
          decides and the routing policy is not asked
  open    half of the slots are taken, nothing waits: every replica is open, the policy decides,
          and the call passes the queue; its decision is the policy's alone

Printed are median and 99th percentile of single events, in microseconds and as multiples of a
calibration in the same run (100 function calls that store into a dict), since machines differ and
shared ones waver. Time is CPU time of the thread. No network, no event loop.

    python -m benchmarks.decision
"""

from __future__ import annotations

import gc
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from time import thread_time_ns
from typing import Any

from gateway.core.caches.prefix_chain import PrefixChain
from gateway.core.dispatch.dispatcher import Dispatcher
from gateway.core.dispatch.effects import Grant, PoolConfig, ReplicaConfig, Ticket, Usage
from gateway.core.dispatch.placement import Turn
from gateway.core.priority import PriorityClass

TENANTS = 1_000
REPLICAS = 100
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
        self.deciding_ns = 0  # in all
        self._decide = self.pool._placement.decide
        self._placed = self.pool._placement._placed
        name, timed = ("decide", self._timed_decide) if queued else ("_placed", self._timed_placed)
        setattr(self.pool._placement, name, timed)
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

    def _timed_decide(self, now_s: float) -> Turn | None:
        began_ns = thread_time_ns()
        turn = self._decide(now_s)
        self.deciding_ns += thread_time_ns() - began_ns
        return turn

    def _timed_placed(self, *asked: Any) -> Turn:
        began_ns = thread_time_ns()
        turn = self._placed(*asked)
        self.deciding_ns += thread_time_ns() - began_ns
        return turn

    def decide(self, ended: Grant, ticket: Ticket) -> tuple[int, int, int]:
        """Nanoseconds of the decision, of the event that granted, and of all."""
        decided_ns = self.deciding_ns
        self.now_s += BETWEEN_S
        usage = Usage(1_000, ended.predicted_cached_tokens, 100)
        began_ns = thread_time_ns()
        after_release = self.pool.release(ended.grant_id, usage, self.now_s)
        released_ns = thread_time_ns()
        after_submit = self.pool.submit(ticket, self.now_s)
        submitted_ns = thread_time_ns()
        self.take(after_release)
        self.take(after_submit)
        whole_ns = thread_time_ns() - began_ns
        granting_ns = released_ns - began_ns if after_release else submitted_ns - released_ns
        return self.deciding_ns - decided_ns, granting_ns, whole_ns

    def pop_running(self) -> Grant:
        """One of those in flight, at random."""
        place = self.rng.randrange(len(self.running))
        self.running[place], self.running[-1] = self.running[-1], self.running[place]
        return self.running.pop()

    def round_ns(self) -> list[tuple[int, int, int]]:
        """``decide`` for each call of one round."""
        tickets = [self.ticket() for _ in range(DECISIONS)]
        return [self.decide(self.pop_running(), ticket) for ticket in tickets]


@dataclass(frozen=True, slots=True)
class Cost:
    """(median, 99th percentile) in microseconds; ``unit_us``: the calibration, meanwhile."""

    decision_us: tuple[float, float]
    event_us: tuple[float, float]
    whole_us: tuple[float, float]
    unit_us: float

    def __str__(self) -> str:
        parts = {"decision": self.decision_us, "event": self.event_us, "whole": self.whole_us}
        return "   ".join(f"{name} {self._words(cost_us)}" for name, cost_us in parts.items())

    def _words(self, cost_us: tuple[float, float]) -> str:
        p50_us, p99_us = cost_us
        return f"{p50_us:5.1f} us ({p50_us / self.unit_us:4.1f} units) p99 {p99_us:4.0f}"


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
    decision, event, whole = map(_quantiles, zip(*taken_ns, strict=True))
    return Cost(decision, event, whole, statistics.median(units_us))


def _quantiles(taken_ns: Sequence[int]) -> tuple[float, float]:
    hundredths = statistics.quantiles(taken_ns, n=100)
    return hundredths[49] / 1e3, hundredths[98] / 1e3


def main() -> None:
    print(f"{SLOTS} slots per replica; one unit = {unit_us():.1f} us now")
    print(f"{TENANTS:,} tenants, {REPLICAS} replicas, {QUEUED:,} queued, unless said")
    for queued in (1_000, QUEUED, 100_000):
        print(f"  bounded      {queued:>7,} queued    {measure(queued)}")
    for tenants in (100, 10_000):
        print(f"  bounded      {tenants:>7,} tenants   {measure(tenants=tenants)}")
    print(f"  bounded      {8:>7,} replicas  {measure(replicas=8)}")
    for routing in POLICIES[1:]:
        print(f"  {routing:<12} {QUEUED:>7,} queued    {measure(routing=routing)}")
    print("half of the slots open, nothing queued")
    for replicas in (8, REPLICAS):
        for routing in POLICIES:
            cost = measure(0, routing=routing, replicas=replicas, open_ratio=0.5)
            print(f"  {routing:<12} {replicas:>7,} replicas  {cost}")


if __name__ == "__main__":
    main()
