"""The replicas of one pool: which may be given calls, which may be given one now.

Invariants: ``admitting`` and ``free`` hold exactly the slugs of present replicas that admit calls
and that are open (a free slot, and what else the rule of dispatch asks for); ``free`` is a subset
of ``admitting``. A replica of which no health was
told admits calls. What was told is kept by slug, since it may cross the configuration: a replica
that is enabled again is as healthy as it was last said to be. (One small value per slug that ever
was.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from gateway.core.dispatch.effects import ReplicaConfig, ReplicaHealth
from gateway.core.queues.lane import ANYWHERE, Lane
from gateway.core.routing.replica import Replica


class Roster:
    """``is_open``: may this replica be given a call now? At least: it has a free slot."""

    def __init__(
        self,
        configs: Iterable[ReplicaConfig],
        is_open: Callable[[Replica], bool] = lambda replica: replica.has_free_slot,
    ) -> None:
        self._is_open = is_open
        self._replicas: dict[str, Replica] = {}
        self._told: dict[str, ReplicaHealth] = {}
        self.admitting: set[str] = set()
        self.free: set[str] = set()
        self.configure(configs)

    def __iter__(self) -> Iterator[Replica]:
        return iter(self._replicas.values())

    def get(self, slug: str) -> Replica | None:
        return self._replicas.get(slug)

    def configure(self, configs: Iterable[ReplicaConfig]) -> frozenset[str]:
        """Adds, changes and removes replicas. Returns the slugs that admit calls and did not
        before."""
        before = frozenset(self.admitting)
        wanted = {config.slug: config for config in configs}
        for slug in self._replicas.keys() - wanted.keys():
            del self._replicas[slug]
        for slug, config in wanted.items():
            replica = self._replicas.get(slug)
            if replica is None:
                health = self._told.get(slug, ReplicaHealth(slug, admits=True))
                self._replicas[slug] = Replica(config, health)
            else:
                replica.change(config=config)
        self.admitting = {replica.slug for replica in self if replica.admits}
        self.free = {replica.slug for replica in self if self._is_open(replica)}
        return frozenset(self.admitting) - before

    def set_health(self, health: ReplicaHealth) -> frozenset[str]:
        """Returns the slug when it admits calls and did not before."""
        self._told[health.slug] = health
        replica = self._replicas.get(health.slug)
        if replica is None:
            return frozenset()
        opened = health.admits and not replica.admits
        replica.change(health=health)
        (self.admitting.add if health.admits else self.admitting.discard)(health.slug)
        self.refresh(replica)
        return frozenset({health.slug}) if opened else frozenset()

    def admitted(self, lane: Lane) -> list[Replica]:
        """Replicas that may run the calls of ``lane``, open or not."""
        admitting = self.admitting
        if lane is ANYWHERE:
            return [replica for slug, replica in self._replicas.items() if slug in admitting]
        return [
            replica
            for slug, replica in self._replicas.items()
            if slug in admitting and lane.admits(slug)
        ]

    def candidates(self, lane: Lane) -> list[Replica]:
        """Open replicas that may run the calls of ``lane``, in the order of
        configuration."""
        if not self.free:
            return []
        if len(self.free) == 1:
            (slug,) = self.free
            return [self._replicas[slug]] if lane is ANYWHERE or lane.admits(slug) else []
        if lane is ANYWHERE:
            return [replica for slug, replica in self._replicas.items() if slug in self.free]
        return [
            replica
            for slug, replica in self._replicas.items()
            if slug in self.free and lane.admits(slug)
        ]

    def refresh(self, replica: Replica) -> None:
        """After something changed that ``is_open`` looks at. A replica that is no longer present is
        none of ours."""
        slug = replica.slug
        if self._replicas.get(slug) is not replica:
            return
        if self._is_open(replica):
            self.free.add(slug)
        else:
            self.free.discard(slug)

    def refresh_all(self) -> None:
        for replica in self:
            self.refresh(replica)
