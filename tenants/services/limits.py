"""Writes of limits: of an organization (replacing the plan's), of a key, of a plan.

A limit is named by (meter, pool, class). Keyword-only; each is one transaction, adds one to the
configuration version and leaves one audit row.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from gateway.core.limits.limit import Limit
from tenants.actors import Actor
from tenants.bounds import clean_limit
from tenants.errors import NotFound
from tenants.models import AuditEntry, KeyLimit, OrganizationLimit, PlanLimit
from tenants.selectors import keys, organizations
from tenants.services import audit, versions
from tenants.services.transactions import transactional


@transactional
def set_limit(
    *, slug: str, limit: Limit, actor: Actor, why: str = "", key_id: str | None = None
) -> AuditEntry:
    """Of the tenant, or of one of its keys."""
    versions.bump()
    rows, target = _rows(slug, key_id)
    return _put(rows, clean_limit(limit), f"{target}", slug, actor, why)


@transactional
def clear_limit(
    *,
    slug: str,
    meter: str,
    actor: Actor,
    pool: str = "*",
    klass: str = "*",
    why: str = "",
    key_id: str | None = None,
) -> AuditEntry:
    """Back to the plan's limit for a tenant; to none for a key."""
    versions.bump()
    rows, target = _rows(slug, key_id)
    row = rows.filter(meter=meter, pool=pool, klass=klass).first()
    if row is None:
        raise NotFound(
            f"{target} has no own limit {meter} for pool {pool}, class {klass}.",
            next_step="Look at its limits first.",
        )
    row.delete()
    return audit.record(
        actor=actor,
        action="limit.clear",
        target=target,
        tenant=slug,
        before=asdict(row.value()),
        after=None,
        why=why,
    )


@transactional
def set_plan_limit(*, plan: str, limit: Limit, actor: Actor, why: str) -> AuditEntry:
    """Every tenant of the plan that has no own limit of that name gets it."""
    versions.bump()
    row = organizations.plan(plan)
    return _put(row.limits, clean_limit(limit), f"plan:{plan}", "", actor, why)


def _rows(slug: str, key_id: str | None) -> tuple[Any, str]:
    """The related limits and the name of their owner."""
    if key_id is None:
        return organizations.organization(slug).limits, f"tenant:{slug}"
    return keys.key(slug, key_id).limits, f"key:{key_id}"


def _put(rows: Any, limit: Limit, target: str, tenant: str, actor: Actor, why: str) -> AuditEntry:
    before: KeyLimit | OrganizationLimit | PlanLimit | None = rows.filter(
        meter=limit.meter, pool=limit.pool, klass=limit.klass
    ).first()
    values = OrganizationLimit.columns(limit)
    names = {name: values.pop(name) for name in ("meter", "pool", "klass")}
    rows.update_or_create(**names, defaults=values)
    return audit.record(
        actor=actor,
        action="limit.set",
        target=target,
        tenant=tenant,
        before=asdict(before.value()) if before else None,
        after=asdict(limit),
        why=why,
    )
