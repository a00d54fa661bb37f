"""Writes of policy parameters: set one, or give it back to its default.

Keyword-only; each is one transaction, adds one to the configuration version and leaves one audit
row.
"""

from __future__ import annotations

import math

from django.utils import timezone

from gateway import selectors as select
from gateway.models import PolicyParameter
from gateway.services.terms import one_of
from gateway.snapshot.parameters import PARAMETERS
from tenants.actors import Actor
from tenants.errors import Invalid, NotFound
from tenants.models import AuditEntry
from tenants.services import audit, versions
from tenants.services.transactions import transactional

EVERY_POOL = "*"


@transactional
def set_value(
    *, name: str, value: float, actor: Actor, pool: str = EVERY_POOL, why: str = ""
) -> AuditEntry:
    """For one pool, or for all that have no value of their own."""
    versions.bump()
    _check(name, value)
    if pool != EVERY_POOL:
        select.pool(pool)
    former = PolicyParameter.objects.filter(name=name, pool=pool).first()
    PolicyParameter.objects.update_or_create(
        name=name, pool=pool, defaults={"value": value, "changed_at": timezone.now()}
    )
    before = None if former is None else {"value": former.value}
    return _record("parameter.set", name, pool, actor, why, before, {"value": value})


@transactional
def clear(*, name: str, actor: Actor, pool: str = EVERY_POOL, why: str = "") -> AuditEntry:
    versions.bump()
    row = PolicyParameter.objects.filter(name=name, pool=pool).first()
    if row is None:
        raise NotFound(f"{name} of {pool} has its default.", next_step="There is nothing to clear.")
    row.delete()
    return _record("parameter.clear", name, pool, actor, why, {"value": row.value}, None)


def _check(name: str, value: float) -> None:
    one_of(name, tuple(PARAMETERS), "parameter")
    known = PARAMETERS[name]
    within = math.isfinite(value) and known.least <= value <= known.most
    if not within or (known.unit not in ("s", "ratio") and value != int(value)):
        raise Invalid(
            f"{name} of {value:g} is not accepted.",
            next_step=f"Give {known.unit} from {known.least:,.10g} to {known.most:,.10g}.",
            field="value",
        )


def _record(
    action: str,
    name: str,
    pool: str,
    actor: Actor,
    why: str,
    before: dict[str, float] | None,
    after: dict[str, float] | None,
) -> AuditEntry:
    target = f"parameter:{name}@{pool}"
    return audit.record(
        actor=actor, action=action, target=target, before=before, after=after, why=why
    )
