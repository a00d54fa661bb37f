"""How do the parts of the data plane fit together? Built from collaborators, so that the same data
plane runs in production, behind fakes, and in virtual time.

``Gateway`` owns what decides and forwards; what keeps (database, files, stores, sockets) is given.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from gateway.active_calls import ActiveCalls
from gateway.auth import Authenticator, Credentials
from gateway.bus import EventBus
from gateway.core.clock import Clock
from gateway.core.dispatch.effects import PoolView
from gateway.core.estimates import TokenEstimator
from gateway.core.limits.demands import QuotaStore
from gateway.core.reasons import Reason
from gateway.core.stages import LOOP, MEMORY, Stages
from gateway.data_plane import DataPlane
from gateway.pipeline.admission import Admission
from gateway.pipeline.attempts import Attempts, AttemptSettings
from gateway.pipeline.call import Call
from gateway.pipeline.counting import Counter
from gateway.pipeline.flows import Flows
from gateway.pipeline.life import Pipeline
from gateway.pipeline.retries import Retries
from gateway.pipeline.running import RunningCalls
from gateway.pipeline.token_counting import Asker, TokenCounting
from gateway.replicas.fleet import Fleet
from gateway.replicas.supervised_replica import FleetSinks
from gateway.replicas.upstream import Prober, ReplicaTarget, Upstream
from gateway.settings import GatewaySettings
from gateway.snapshot.values import Snapshot


class Transport(Upstream, Prober, Asker, Protocol):
    """What reaches replicas: streams, probes, questions, and forgetting one that was removed."""

    async def forget(self, target: ReplicaTarget) -> None: ...


@dataclass(frozen=True, slots=True)
class Collaborators:
    clock: Clock
    rng: random.Random
    store: QuotaStore
    transport: Transport
    active: ActiveCalls
    bus: EventBus
    snapshot: Callable[[], Snapshot]
    loop_lag_s: Callable[[], float]
    memory: Stages = field(default_factory=lambda: Stages(MEMORY))
    loop: Stages = field(default_factory=lambda: Stages(LOOP))


class Gateway:
    def __init__(self, given: Collaborators, settings: GatewaySettings) -> None:
        self._given = given
        self.running = RunningCalls()
        self.flows = Flows(given.clock, given.rng)
        self._retries = Retries()
        sinks = FleetSinks(self.flows.tell, self.flows.tell, given.bus.publish)
        self.fleet = Fleet(given.transport, given.clock, sinks, forget=given.transport.forget)
        credentials = Credentials(settings.key_pepper, settings.secret_key)
        self.authenticator = Authenticator(credentials, given.clock)
        self.pipeline = Pipeline(
            snapshot=given.snapshot,
            authenticator=self.authenticator,
            counter=Counter(TokenEstimator()),
            admission=Admission(given.store, given.active),
            flows=self.flows,
            attempts=Attempts(
                given.transport,
                self.fleet,
                given.bus,
                _attempt_settings(settings),
                settings.secret_key,
            ),
            retries=self._retries,
            running=self.running,
            memory=given.memory,
            loop=given.loop,
            bus=given.bus,
            body_timeout_s=settings.body_timeout_s,
            keep_alive_s=settings.keep_alive_s,
        )
        token_counting = TokenCounting(
            self.pipeline, given.store, self.fleet, given.transport, given.rng
        )
        self.data_plane = DataPlane(self.pipeline, token_counting, given.clock, given.loop_lag_s)

    def apply(self, snapshot: Snapshot) -> None:
        """Takes a new configuration into force: replicas, weights, and the end of calls whose key
        or organization may no longer call."""
        pools = snapshot.pools.values()
        self.flows.apply(snapshot)
        self.fleet.apply(replica for pool in pools for replica in pool.replicas)
        self._retries.keep(snapshot.pools.keys())
        self.running.interrupt(lambda call: condemned(call, snapshot, self._given.clock.wall()))

    def views(self) -> Mapping[str, PoolView]:
        return dict(self.flows.views())

    def cancel(self, call_id: str) -> bool:
        """By an operator. False: no such call runs here."""
        return (
            self.running.interrupt(
                lambda call: Reason.CANCELLED if call.call_id == call_id else None
            )
            > 0
        )

    def refuse_new(self) -> None:
        """Draining begins: what is queued is refused at once, what streams goes on."""
        self.data_plane.draining = True
        self.flows.drain()

    async def finish(self) -> None:
        """Ends what still runs, and returns when everything has been given back."""
        self.running.interrupt(lambda call: Reason.DRAINING)
        await self.running.none_left()
        await self.fleet.stop()


def condemned(call: Call, snapshot: Snapshot, now_at: float) -> Reason | None:
    """Why a running call must end under this configuration, if it must."""
    principal = call.placed.principal
    tenant = snapshot.tenants.get(principal.tenant.slug)
    key = snapshot.keys.get(principal.key.key_id)
    if tenant is None or tenant.suspended:
        return Reason.SUSPENDED
    if key is None or not key.live_at(now_at):
        return Reason.INVALID_API_KEY
    return None


def _attempt_settings(settings: GatewaySettings) -> AttemptSettings:
    return AttemptSettings(
        settings.connect_timeout_s, settings.between_tokens_timeout_s, settings.total_timeout_s
    )
