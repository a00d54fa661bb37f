"""The snapshot from the database: thirteen queries, whatever the number of rows. Blocks the thread.

The version is read before the rows, which may therefore be newer than it says, never older.
"""

from __future__ import annotations

import time
from collections import defaultdict

import structlog

from gateway.core.cost import Prices
from gateway.models import Alias, PolicyParameter, Pool, Replica, ReplicaSetting
from gateway.sealing import Unsealable, unseal
from gateway.snapshot.values import (
    BODY_BYTES,
    AliasValue,
    PoolValue,
    ReplicaValue,
    Snapshot,
    Target,
)
from tenants import snapshot as tenancy

log = structlog.get_logger(__name__)


def build() -> Snapshot:
    """Raises django.db.Error when the database does not answer."""
    tenants = tenancy.load()
    pools = _pools()
    return Snapshot(
        version=tenants.version,
        loaded_at=time.time(),
        tenants=tenants.tenants,
        keys=tenants.keys,
        pools=pools,
        aliases={row.name: _alias(row, pools) for row in Alias.objects.select_related("pool")},
        parameters={(row.name, row.pool): row.value for row in PolicyParameter.objects.all()},
        most_body_bytes=max((pool.most_body_bytes for pool in pools.values()), default=BODY_BYTES),
        stale_at=tenants.stale_at,
    )


def _pools() -> dict[str, PoolValue]:
    replicas: defaultdict[int, list[ReplicaValue]] = defaultdict(list)
    for row in Replica.objects.select_related("pool"):
        replicas[row.pool_id].append(_replica(row))
    return {row.slug: _pool(row, tuple(replicas[row.pk])) for row in Pool.objects.all()}


def _pool(row: Pool, replicas: tuple[ReplicaValue, ...]) -> PoolValue:
    return PoolValue(
        slug=row.slug,
        replicas=replicas,
        routing=row.routing,
        prices=Prices(row.input_per_mtok, row.cached_per_mtok, row.output_per_mtok),
        context_tokens=row.context_tokens,
        endpoints=frozenset(row.endpoints),
        capabilities=frozenset(row.capabilities),
        ttft_objective_s=row.ttft_objective_s,
        tpot_objective_s=row.tpot_objective_s,
        template_order=row.template_order,
    )


def _replica(row: Replica) -> ReplicaValue:
    state, api_key = row.state, ""
    try:
        api_key = unseal(row.sealed_api_key)
    except Unsealable:
        state = ReplicaSetting.DISABLED
        log.error("replica_api_key_unreadable", replica=row.slug, next_step="set it again")
    return ReplicaValue(
        slug=row.slug,
        pool=row.pool.slug,
        kind=row.kind,
        base_url=row.base_url,
        state=str(state),
        slots=row.slots,
        context_tokens=row.context_tokens,
        kv_tokens=row.kv_tokens,
        capabilities=frozenset(row.capabilities),
        serial=row.pk,
        api_key=api_key,
        region=row.region,
        tenants=frozenset(row.tenants),
        band_from_tokens=row.band_from_tokens,
        band_to_tokens=row.band_to_tokens,
    )


def _alias(row: Alias, pools: dict[str, PoolValue]) -> AliasValue:
    """A further target whose pool is gone is left out."""
    others = tuple(
        Target(
            other["pool"],
            other["upstream_model"] or row.name,
            other["weight"],
            other["fallback"],
        )
        for other in row.others
        if other["pool"] in pools
    )
    return AliasValue(
        name=row.name,
        pool=row.pool.slug,
        upstream_model=row.upstream_model or row.name,
        weight=row.weight,
        others=others,
        created_at=row.created_at.timestamp(),
    )
