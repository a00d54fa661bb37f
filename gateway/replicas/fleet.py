"""Which replicas exist now, and which of them may be given calls?

``apply`` makes the supervised objects equal to the configuration, at run time, without touching the
calls that run: a changed slot count or setting reaches the object; another address, kind or key is
another object; a removed object keeps its connections until its last attempt has ended.

Everything happens on one loop. What the fleet finds out goes to the sinks: health and telemetry
to the schedulers, states and degradations to the event bus.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable

from gateway.core.clock import Clock
from gateway.core.health.callers import RecentCallers
from gateway.core.health.ejection import may_eject
from gateway.core.health.machine import ReplicaHealthMachine
from gateway.replicas.adapters import adapter_of
from gateway.replicas.supervised_replica import FleetSinks, SupervisedReplica
from gateway.replicas.upstream import Prober, ReplicaTarget
from gateway.snapshot.values import ReplicaValue
from gateway.summary import ReplicaLive

_Identity = tuple[object, ...]


class UnknownReplica(LookupError):
    """The replica was removed between the decision and its use."""


class Fleet:
    """``forget`` closes the connections of a removed replica (``HttpUpstream.forget``)."""

    def __init__(
        self,
        prober: Prober,
        clock: Clock,
        sinks: FleetSinks,
        *,
        forget: Callable[[ReplicaTarget], Awaitable[None]] | None = None,
    ) -> None:
        self._prober = prober
        self._clock = clock
        self._sinks = sinks
        self._forget = forget
        self._replicas: dict[tuple[str, str], SupervisedReplica] = {}  # (pool, slug)
        self._identities: dict[tuple[str, str], _Identity] = {}
        self._callers: defaultdict[str, RecentCallers] = defaultdict(RecentCallers)  # by pool
        self._serials = itertools.count(1)
        self._farewells: set[asyncio.Task[None]] = set()

    def apply(self, wanted: Iterable[ReplicaValue]) -> None:
        """``wanted`` is the whole configuration. Must run on the loop. Raises ValueError for an
        unknown kind."""
        values = {(value.pool, value.slug): value for value in wanted}
        for key in [key for key in self._replicas if key not in values]:
            self._remove(key)
        for key, value in values.items():
            if self._identities.get(key) != _identity(value):
                if key in self._replicas:
                    self._remove(key)
                self._add(key, value)
            self._replicas[key].set(value.state, value.slots)

    async def stop(self) -> None:
        """Ends every task; connections stay, for whoever owns the upstream to close."""
        replicas = list(self._replicas.values())
        self._replicas.clear()
        self._identities.clear()
        for replica in replicas:
            replica.stop()
        for farewell in self._farewells:
            farewell.cancel()
        await asyncio.gather(
            *(replica.ended() for replica in replicas), *self._farewells, return_exceptions=True
        )

    def replica(self, pool: str, slug: str) -> SupervisedReplica:
        """Hold the object for one attempt: ``target`` to reach it, ``watch`` to report. Raises
        UnknownReplica."""
        try:
            return self._replicas[pool, slug]
        except KeyError:
            raise UnknownReplica(f"{pool}/{slug}") from None

    def live(self) -> tuple[ReplicaLive, ...]:
        """For the one-second summary and the control API."""
        return tuple(
            ReplicaLive(pool, slug, replica.state, replica.telemetry, replica.why)
            for (pool, slug), replica in self._replicas.items()
        )

    def degraded(self) -> dict[str, str]:
        """Replicas whose telemetry is lost, and why."""
        return {
            slug: replica.degraded
            for (_, slug), replica in self._replicas.items()
            if replica.degraded is not None
        }

    def _add(self, key: tuple[str, str], value: ReplicaValue) -> None:
        target = ReplicaTarget(
            slug=value.slug,
            pool=value.pool,
            kind=value.kind,
            base_url=value.base_url.rstrip("/"),
            api_key=value.api_key,
            serial=next(self._serials),
        )
        machine = ReplicaHealthMachine(
            value.slug, value.slots, lambda: self._may_eject(key), now_s=self._clock.monotonic()
        )
        replica = SupervisedReplica(
            target,
            adapter_of(value.kind),
            machine,
            prober=self._prober,
            clock=self._clock,
            sinks=self._sinks,
            callers=self._callers[value.pool],
        )
        self._replicas[key] = replica
        self._identities[key] = _identity(value)
        replica.start()

    def _remove(self, key: tuple[str, str]) -> None:
        replica = self._replicas.pop(key)
        del self._identities[key]
        replica.stop()
        task = asyncio.get_running_loop().create_task(
            self._farewell(replica), name=f"remove {key[0]}/{key[1]}"
        )
        self._farewells.add(task)
        task.add_done_callback(self._farewells.discard)

    async def _farewell(self, replica: SupervisedReplica) -> None:
        await replica.ended()
        await replica.idle()
        if self._forget is not None:
            await self._forget(replica.target)

    def _may_eject(self, key: tuple[str, str]) -> bool:
        pool = [
            replica.machine
            for (pool, _), replica in self._replicas.items()
            if pool == key[0] and replica.setting == "enabled"
        ]
        return key in self._replicas and may_eject(self._replicas[key].machine, pool)


def _identity(value: ReplicaValue) -> _Identity:
    return value.serial, value.kind, value.base_url, value.api_key
