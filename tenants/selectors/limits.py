"""Reads of limits: what applies to a tenant and where each limit comes from."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.core.limits.limit import Limit
from tenants.selectors.keys import key
from tenants.selectors.organizations import organization
from tenants.snapshot import effective


@dataclass(frozen=True, slots=True)
class EffectiveLimit:
    """``source`` is ``plan`` or ``tenant``."""

    limit: Limit
    source: str


def limits_of(slug: str) -> tuple[Limit, ...]:
    """The tenant's own limits, without the plan's."""
    return tuple(row.value() for row in organization(slug).limits.all())


def effective_limits(slug: str) -> tuple[EffectiveLimit, ...]:
    """What applies: the tenant's own limit where there is one, else the plan's."""
    row = organization(slug)
    own = {limit.value() for limit in row.limits.all()}
    merged = effective((limit.value() for limit in row.plan.limits.all()), own)
    return tuple(EffectiveLimit(limit, "tenant" if limit in own else "plan") for limit in merged)


def limits_of_key(slug: str, key_id: str) -> tuple[Limit, ...]:
    return tuple(row.value() for row in key(slug, key_id).limits.all())
