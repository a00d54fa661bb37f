"""Writes of pools: create, change, remove.

Keyword-only; each is one transaction, adds one to the configuration version and leaves one audit
row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gateway import selectors as select
from gateway.models import Pool, ReplicaSetting
from gateway.services import replicas
from gateway.services.terms import PoolTerms
from tenants.actors import Actor
from tenants.errors import AlreadyExists, Invalid
from tenants.models import AuditEntry
from tenants.services import audit, versions
from tenants.services.transactions import transactional
from tenants.wording import clean_slug


@transactional
def create(*, slug: str, terms: PoolTerms, actor: Actor, why: str = "") -> Pool:
    """The slug never changes. A pool serves nothing until it has an alias and a replica."""
    versions.bump()
    columns = terms.checked().columns()
    if Pool.objects.filter(slug=clean_slug(slug)).exists():
        raise AlreadyExists(
            f"The pool {slug} exists already.", next_step="Change it, or choose another slug."
        )
    row = Pool.objects.create(slug=slug, **columns)
    _record(slug, "pool.create", actor, why, None, columns)
    return row


@transactional
def change(*, slug: str, changes: Mapping[str, Any], actor: Actor, why: str = "") -> AuditEntry:
    """``changes``: fields of PoolTerms; the others stay, as do queued calls."""
    versions.bump()
    row = select.pool(slug)
    before = PoolTerms.of(row)
    after = replace(before, **changes).checked()
    Pool.objects.filter(pk=row.pk).update(**after.columns())
    return _record(slug, "pool.change", actor, why, before.columns(), after.columns())


@transactional
def switch(*, slug: str, state: ReplicaSetting, actor: Actor, why: str = "") -> int:
    """Puts every replica of the pool into ``state``; how many were not in it yet."""
    others = [row.slug for row in select.replicas(of_pool=slug) if row.state != state]
    for replica in others:
        replicas.switch(slug=replica, state=state, actor=actor, why=why)
    return len(others)


@transactional
def remove(*, slug: str, actor: Actor, why: str = "") -> AuditEntry:
    """Only when nothing refers to it. Ledger rows keep its slug."""
    versions.bump()
    row = select.pool(slug)
    if row.replicas.exists() or select.aliases_of(slug):
        raise Invalid(
            f"The pool {slug} still has replicas or models.",
            next_step="Remove those first: manage.py replica remove, manage.py pool unname.",
        )
    before = PoolTerms.of(row).columns()
    row.delete()
    return _record(slug, "pool.remove", actor, why, before, None)


def _record(
    slug: str,
    action: str,
    actor: Actor,
    why: str,
    before: dict[str, object] | None,
    after: dict[str, object] | None,
) -> AuditEntry:
    return audit.record(
        actor=actor, action=action, target=f"pool:{slug}", before=before, after=after, why=why
    )
