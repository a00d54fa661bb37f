"""Which slot limit is in force on each replica? Feeds what happens to the calls of a pool into the
``SlotLimit`` of the replica object that they run on.

Invariant: the limits of replicas that left go with their last call.
"""

from __future__ import annotations

from gateway.core.dispatch.adaptive_slots import SlotLimit
from gateway.core.dispatch.effects import Failure, PoolConfig, ReplicaTelemetry, Usage
from gateway.core.dispatch.lease import Lease
from gateway.core.routing.replica import Replica
from gateway.core.routing.roster import Roster


class SlotLimits:
    def __init__(self, config: PoolConfig, roster: Roster, now_s: float) -> None:
        self._roster = roster
        self._limits: dict[Replica, SlotLimit] = {}
        self.configure(config, now_s)

    def configure(self, config: PoolConfig, now_s: float) -> None:
        self._config = config
        present = set(self._roster)
        for gone in self._limits.keys() - present:
            del self._limits[gone]
        for replica in present:
            limit = self._limits.get(replica)
            if limit is None:
                limit = self._limits[replica] = SlotLimit(config, replica.config.slots, now_s)
            limit.config = config
            limit.configured(replica.config.slots, fixed=replica.config.one_prefix_per_slot)
            self._enforce(replica, limit)

    def granted(self, replica: Replica) -> None:
        if (limit := self._limits.get(replica)) is not None:
            limit.in_flight(replica.in_flight)

    def began(self, lease: Lease, now_s: float) -> bool:
        """First event. True: the limit changed."""
        limit = self._limits.get(lease.replica)
        if limit is None or lease.first_event_s is not None:
            return False
        limit.began(
            lease.dispatched_s,
            now_s,
            prompt_tokens=lease.uncached_tokens + lease.unstarted_before,
            alone=lease.unstarted_before == 0,
        )
        return lease.replica.slot_limit != limit.limit and self._enforce(lease.replica, limit)

    def ended(
        self, lease: Lease, usage: Usage | None, now_s: float, failure: Failure | None
    ) -> bool:
        limit = self._limits.get(lease.replica)
        if limit is None:
            return False
        tpot_s = None
        if lease.first_event_s is not None and usage is not None and usage.output_tokens > 1:
            tpot_s = (now_s - lease.first_event_s) / (usage.output_tokens - 1)
        limit.ended(lease.dispatched_s, now_s, tpot_s=tpot_s, failure=failure)
        return lease.replica.slot_limit != limit.limit and self._enforce(lease.replica, limit)

    def sampled(self, replica: Replica, sample: ReplicaTelemetry) -> None:
        if (limit := self._limits.get(replica)) is not None:
            limit.sampled(sample.kv_ratio, sample.preemptions, sample.waiting)

    def _enforce(self, replica: Replica, limit: SlotLimit) -> bool:
        wanted = limit.limit if self._config.adaptive_slots else None
        if replica.slot_limit == wanted:
            return False
        replica.limit(wanted)
        return True
