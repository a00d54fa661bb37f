"""May this replica be given another call now?

A gateway in front of an engine that serves first come, first served is as fair as a scheduler
inside the engine, but only while the engine itself has almost nothing waiting: what waits there is
out of the gateway's hands. The engine's own gauge of waiting calls cannot steer this, being 0.1 to
1 s old: it lets a burst through before it moves, or starves the engine after. What is known at once
is what was sent and has not begun. So a replica is *open* while

  slots      calls in flight < its slots
  kv         tokens in flight (prompt + expected output) <= 1.3 * its KV capacity
  unstarted  fewer than 3 calls, or at most one step's budget of prompt tokens, are *unstarted*:
             dispatched and without any upstream event. Where every slot holds a prompt of its own
             (llama.cpp): no call, or at most ``slot_step_tokens``, while calls queue
  brake      no sample of its telemetry, less than 2 s old, says that more than 4 calls wait there

The step budget matters for short calls: three prompts of 60 tokens do not fill a step of 2,048, and
waiting for their first events would leave the engine idle for a round trip. The brake only brakes:
the next first event or sample lifts it, so that a stale sample never stops a replica for long.

A llama.cpp server has few slots and reads the prompts of all of them in one batch. Calls of one
size that begin together there end together, so slots come back in bursts, and whoever comes in
between waits for a whole call. Read one after another, they end one after another: a wait of one
interval instead of four, at the same throughput, since the others write meanwhile (measured: two
servers of four slots, 95th percentile of the wait 1.5-1.8 mean intervals, before 3.3-5.4). Only
where calls *queue*: one that finds a free slot goes to the replica that holds its prompt, though
that reads another one; to wait, or to go elsewhere, would cost it the prompt.

A replica whose samples show more calls than were sent to it (``FOREIGN_CALLS`` more, for
``FOREIGN_S`` and longer) serves somebody else as well: an alarm, since no local rule can be fair
then.

Invariants: an idle replica with slots is open, unless a sample brakes it, however large the next
call is; time alone only opens. Units: tokens, monotonic seconds.
Source: measured for this project against engine-level counters (OSDI'24): average difference
231 +- 8 at 811 tok/s, engine-level 237 at 817, first come 377 at 819.
"""

from __future__ import annotations

from gateway.core.dispatch.effects import PoolConfig, ReplicaTelemetry
from gateway.core.routing.replica import Replica

SAMPLE_S = 2.0
FOREIGN_CALLS = 2
FOREIGN_S = 10.0


class StartRule:
    def __init__(self, config: PoolConfig) -> None:
        self.config = config
        self._queued = False
        self.braked_until_s: dict[str, float] = {}  # by replica
        self._foreign_since_s: dict[str, float] = {}
        self._sampled_s: dict[str, float] = {}

    def is_open(self, replica: Replica) -> bool:
        return (
            replica.in_flight < replica.slots
            and replica.in_flight_tokens
            <= self.config.kv_in_flight_ratio * replica.config.kv_tokens
            and (
                replica.unstarted < self._unstarted_calls(replica)
                or replica.unstarted_prompt_tokens <= self._step_tokens(replica)
            )
            and not (self.braked_until_s and replica.slug in self.braked_until_s)
        )

    def opened_by(self, replica: Replica) -> str:
        """Which branch lets the next call through, for the explanation of a grant."""
        return "unstarted" if replica.unstarted < self._unstarted_calls(replica) else "step_budget"

    def queues(self, calls: int) -> bool:
        """So many wait. Does that open or close a replica?"""
        was, self._queued = self._queued, calls > 1
        return was is not self._queued and any(
            replica.one_prefix_per_slot for replica in self.config.replicas
        )

    def _unstarted_calls(self, replica: Replica) -> int:
        if not replica.config.one_prefix_per_slot:
            return self.config.unstarted_calls
        return 1 if self._queued else replica.slots

    def _step_tokens(self, replica: Replica) -> int:
        config = self.config
        per_slot = replica.config.one_prefix_per_slot
        return config.slot_step_tokens if per_slot else config.step_budget_tokens

    def started(self, slug: str) -> None:
        """A first event: the engine's queue moves."""
        if self.braked_until_s:
            self.braked_until_s.pop(slug, None)

    def sampled(self, replica: Replica, sample: ReplicaTelemetry, now_s: float) -> None:
        """A sample replaces the one before it, in both directions."""
        waiting = sample.waiting or 0
        until_s = sample.at_s + SAMPLE_S
        if waiting > self.config.brake_waiting_calls and now_s < until_s:
            self.braked_until_s[replica.slug] = until_s
        else:
            self.braked_until_s.pop(replica.slug, None)
        self._sampled_s[replica.slug] = sample.at_s
        known = replica.in_flight
        if sample.running is not None and sample.running + waiting > known + FOREIGN_CALLS:
            self._foreign_since_s.setdefault(replica.slug, sample.at_s)
        else:
            self._foreign_since_s.pop(replica.slug, None)

    def released(self, now_s: float) -> list[str]:
        """Replicas whose brake is too old to count. Ends those brakes."""
        over = [slug for slug, until_s in self.braked_until_s.items() if until_s <= now_s]
        for slug in over:
            del self.braked_until_s[slug]
        return over

    def foreign_traffic(self) -> frozenset[str]:
        """Replicas that have run more than what was sent to them, for long."""
        return frozenset(
            slug
            for slug, since_s in self._foreign_since_s.items()
            if self._sampled_s[slug] - since_s >= FOREIGN_S
        )
