"""Reads of pools, aliases, replicas and policy parameters. What is absent raises NotFound."""

from __future__ import annotations

from django.db.models import QuerySet

from gateway.models import Alias, CallExplanation, PolicyParameter, Pool, Replica
from tenants.errors import NotFound
from tenants.wording import printable


def pools() -> QuerySet[Pool]:
    return Pool.objects.prefetch_related("aliases", "replicas")


def pool(slug: str) -> Pool:
    row = pools().filter(slug=slug).first()
    if row is None:
        raise NotFound(
            f"There is no pool {printable(slug)}.", next_step="List them with: manage.py pool list"
        )
    return row


def aliases() -> QuerySet[Alias]:
    return Alias.objects.select_related("pool")


def aliases_of(pool: str) -> list[Alias]:
    """Those with the pool among their targets, as the first or as another."""
    return [
        row
        for row in aliases()
        if pool in (row.pool.slug, *(other["pool"] for other in row.others))
    ]


def alias(name: str) -> Alias:
    row = aliases().filter(name=name).first()
    if row is None:
        raise NotFound(
            f"There is no model {printable(name)}.",
            next_step="The models of a pool are shown by: manage.py pool show POOL",
        )
    return row


def replicas(*, of_pool: str | None = None) -> QuerySet[Replica]:
    rows = Replica.objects.select_related("pool")
    return rows if of_pool is None else rows.filter(pool=pool(of_pool))


def replica(slug: str) -> Replica:
    row = replicas().filter(slug=slug).first()
    if row is None:
        raise NotFound(
            f"There is no replica {printable(slug)}.",
            next_step="List them with: manage.py replica list",
        )
    return row


def parameters() -> QuerySet[PolicyParameter]:
    return PolicyParameter.objects.all()


def explanation(call_id: str) -> CallExplanation | None:
    """None: it was not kept, or no longer."""
    return CallExplanation.objects.filter(call_id=call_id).first()
