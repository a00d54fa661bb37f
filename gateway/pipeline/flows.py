"""Which flow serves which pool, and how does a changed configuration reach the dispatchers?

One ``PoolFlow`` per pool of the snapshot. A new snapshot is applied to every pool at once and loses
no queued call; a pool that is gone refuses what it still queues and is kept until its last grant is
given back by the call that holds it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import msgspec

from gateway.core.caches.prefix_index import BUDGET_BYTES
from gateway.core.clock import Clock
from gateway.core.dispatch.dispatcher import Dispatcher
from gateway.core.dispatch.effects import (
    PoolConfig,
    PoolView,
    ReplicaConfig,
    ReplicaHealth,
    ReplicaTelemetry,
    Ticket,
)
from gateway.core.errors import Evicted
from gateway.core.reasons import Reason
from gateway.pipeline.call import Call
from gateway.pipeline.flow import PoolFlow
from gateway.replicas.adapters import Sharing, adapter_of
from gateway.snapshot.parameters import with_parameters
from gateway.snapshot.values import PoolValue, Snapshot

ENABLED = "enabled"
DEFAULTS = PoolConfig(replicas=(), weights={})
KV_TOKENS = 250_000  # where the replica does not say


class Flows:
    def __init__(self, clock: Clock, rng: random.Random) -> None:
        self._clock = clock
        self._rng = rng
        self._flows: dict[str, PoolFlow] = {}
        self._draining = False

    def of(self, call: Call) -> PoolFlow:
        """Raises Evicted(NO_REPLICA) for a pool that has just been removed."""
        flow = self._flows.get(call.placed.route.pool.slug)
        if flow is None:
            raise Evicted(Reason.NO_REPLICA)
        return flow

    def serves(self, pool: str) -> bool:
        """A replica of the pool admits calls."""
        return pool in self._flows and self._flows[pool].serves

    def apply(self, snapshot: Snapshot) -> None:
        weights = {tenant.slug: tenant.weight for tenant in snapshot.tenants.values()}
        for slug in self._flows.keys() - snapshot.pools.keys():
            self._flows.pop(slug).drain()
        for slug, pool in snapshot.pools.items():
            config = with_parameters(pool_config(pool, weights), slug, snapshot)
            config = replace(config, prefix_index_bytes=BUDGET_BYTES // len(snapshot.pools))
            if slug in self._flows:
                self._flows[slug].apply(config)
            else:
                now_s = self._clock.monotonic()
                dispatcher = Dispatcher(slug, config, self._rng, now_s)
                self._flows[slug] = PoolFlow(dispatcher, self._clock)
        if self._draining:
            self.drain()

    def tell(self, pool: str, news: ReplicaHealth | ReplicaTelemetry) -> None:
        """From the fleet: what became of a replica. Ignored for a pool that is gone."""
        if pool in self._flows:
            self._flows[pool].apply(news)

    def drain(self) -> None:
        """Refuses every queued call at once, and every later one."""
        self._draining = True
        for flow in self._flows.values():
            flow.drain()

    def views(self) -> Iterator[tuple[str, PoolView]]:
        return ((slug, flow.view()) for slug, flow in self._flows.items())


def pool_config(pool: PoolValue, weights: dict[str, float]) -> PoolConfig:
    """Replicas that drain or are disabled are left out: what they run goes on, nothing new
    comes."""
    replicas = tuple(
        ReplicaConfig(
            replica.slug,
            replica.slots,
            replica.context_tokens or pool.context_tokens,
            replica.kv_tokens or KV_TOKENS,
            adapter_of(replica.kind).sharing is Sharing.PER_SLOT,
        )
        for replica in pool.replicas
        if replica.state == ENABLED
    )
    interactive_s, standard_s, batch_s = DEFAULTS.ttft_objective_s
    return PoolConfig(
        replicas,
        weights,
        routing=pool.routing,
        ttft_objective_s=(pool.ttft_objective_s or interactive_s, standard_s, batch_s),
        tpot_objective_s=pool.tpot_objective_s,
    )


def ticket_of(call: Call) -> Ticket:
    order = call.placed
    return Ticket(
        call_id=call.call_id,
        tenant=order.principal.tenant.slug,
        key_id=order.principal.key.key_id,
        klass=order.route.klass,
        arrived_s=call.clock.arrive_s,
        deadline_s=call.deadline_s,
        input_tokens=order.count.size.input_tokens,
        output_tokens=order.count.expected_output,
        body_bytes=order.body.size_bytes,
        eligible=order.eligible,
        prefix=order.prefix,
        ordered=order.hints.ordered,
        end_user=order.body.user or "",
        conversation=order.conversation,
        prompt_hash=order.prompt_hash,
        retry_count=order.hints.retry_count,
        ttft_objective_s=order.hints.slo_ttft_s,
    )


def preempted(ticket: Ticket) -> Ticket:
    """To ask again after the slot was taken back: any replica may run it."""
    return msgspec.structs.replace(ticket, again=True, preemptions=ticket.preemptions + 1)
