"""Which pools' templates have not been learned yet? Asks one of their replicas, once each.

Runs beside the calls. What is learned is written as any change of a pool is: with an audit row, and
in force with the next snapshot. An order that an operator set is never asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import structlog
from django.db import Error as DatabaseError
from django.db import connection

from gateway.replicas.fleet import Fleet, UnknownReplica
from gateway.replicas.template_probe import Renderer, template_order
from gateway.replicas.upstream import ReplicaTarget
from gateway.services import pools
from gateway.snapshot.values import Snapshot
from tenants.actors import Actor
from tenants.errors import TenancyError

EVERY_S = 10.0
log = structlog.get_logger(__name__)


class TemplateOrders:
    def __init__(self, snapshot: Callable[[], Snapshot], fleet: Fleet, upstream: Renderer) -> None:
        self._snapshot = snapshot
        self._fleet = fleet
        self._upstream = upstream
        self._asked: set[ReplicaTarget] = set()

    async def run(self) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            for pool, target, model in list(self._unknown()):
                self._asked.add(target)
                order = await template_order(self._upstream, target, model)
                if order is not None:
                    await asyncio.to_thread(_write, pool, order)

    def _unknown(self) -> Iterator[tuple[str, ReplicaTarget, str]]:
        """One replica that serves, of each pool that is not known."""
        snapshot = self._snapshot()
        models = {alias.pool: alias.upstream_model for alias in snapshot.aliases.values()}
        for pool in snapshot.pools.values():
            if pool.template_order or pool.slug not in models:
                continue
            for value in pool.replicas:
                try:
                    replica = self._fleet.replica(pool.slug, value.slug)
                except UnknownReplica:
                    continue
                if replica.state == "serving" and replica.target not in self._asked:
                    yield pool.slug, replica.target, models[pool.slug]
                    break


def _write(pool: str, order: str) -> None:
    try:
        pools.change(
            slug=pool,
            changes={"template_order": order},
            actor=Actor.system("template probe"),
            why="rendered by a replica of the pool",
        )
    except (TenancyError, DatabaseError) as error:
        log.info("template_order_not_kept", pool=pool, why=type(error).__name__)
    finally:
        connection.close()
