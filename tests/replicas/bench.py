"""A fleet in front of scripted replicas, with everything that its sinks were told."""

from __future__ import annotations

from dataclasses import dataclass, field

from gateway.core.clock import Clock
from gateway.core.dispatch.effects import ReplicaHealth, ReplicaTelemetry
from gateway.core.errors import UpstreamError
from gateway.core.events import Event, ReplicaState
from gateway.replicas.fleet import Fleet
from gateway.replicas.supervised_replica import FleetSinks
from gateway.replicas.upstream import AttemptTimeouts, ReplicaTarget
from gateway.snapshot.values import ReplicaValue
from tests.fakes.scripted_upstream import ScriptedUpstream
from tests.replicas.calls import CHAT, chunks

TIMEOUTS = AttemptTimeouts(connect_s=3.0, headers_s=30.0, idle_s=60.0)


def value(
    slug: str = "r1", *, slots: int = 8, state: str = "enabled", serial: int = 1
) -> ReplicaValue:
    url = "http://replica"
    return ReplicaValue(slug, "pool", "vllm", url, state, slots, 0, 0, frozenset(), serial)


@dataclass
class Bench:
    clock: Clock
    upstream: ScriptedUpstream = field(default_factory=ScriptedUpstream)
    health: dict[str, ReplicaHealth] = field(default_factory=dict)
    samples: list[ReplicaTelemetry] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    forgotten: list[ReplicaTarget] = field(default_factory=list)

    def __post_init__(self) -> None:
        sinks = FleetSinks(self._heard, self._sampled, self.events.append)
        self.fleet = Fleet(self.upstream, self.clock, sinks, forget=self._forget)

    async def call(self, slug: str = "r1") -> UpstreamError | None:
        """One attempt as the pipeline makes it."""
        replica = self.fleet.replica("pool", slug)
        try:
            with replica.watch() as watch:
                async with self.upstream.stream(replica.target, CHAT, b"", {}, TIMEOUTS) as stream:
                    async for chunk in chunks(stream):
                        if b'"content":"t' in chunk:
                            watch.progress(self.clock.monotonic())
        except UpstreamError as error:
            return error
        return None

    def states(self, slug: str = "r1") -> list[str]:
        told = [event for event in self.events if isinstance(event, ReplicaState)]
        return [event.state for event in told if event.replica == slug]

    def state(self, slug: str = "r1") -> str:
        return self.fleet.replica("pool", slug).state

    def _heard(self, pool: str, health: ReplicaHealth) -> None:
        self.health[health.slug] = health

    def _sampled(self, pool: str, sample: ReplicaTelemetry) -> None:
        self.samples.append(sample)

    async def _forget(self, target: ReplicaTarget) -> None:
        self.forgotten.append(target)
