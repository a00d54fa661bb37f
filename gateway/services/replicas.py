"""Writes of replicas: create, change, drain, disable, enable, remove.

Keyword-only; each is one transaction, adds one to the configuration version and leaves one audit
row. The API key of a replica is written only: neither the audit trail nor any reader gets it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gateway import selectors as select
from gateway.models import Replica, ReplicaSetting
from gateway.sealing import seal
from gateway.services.terms import ReplicaTerms, checked_url, clean_api_key
from tenants.actors import Actor
from tenants.errors import AlreadyExists
from tenants.models import AuditEntry
from tenants.services import audit, versions
from tenants.services.transactions import transactional
from tenants.wording import clean_slug


def create(
    *, slug: str, pool: str, terms: ReplicaTerms, actor: Actor, api_key: str = "", why: str = ""
) -> Replica:
    """It gets calls once its first probe succeeds. The slug never changes."""
    checked = replace(terms.checked(), base_url=checked_url(terms.base_url))
    columns = checked.columns() | {"sealed_api_key": seal(clean_api_key(api_key))}
    return _create(slug, pool, columns, actor, why)


def change(
    *,
    slug: str,
    changes: Mapping[str, Any],
    actor: Actor,
    api_key: str | None = None,
    why: str = "",
) -> AuditEntry:
    """``changes``: fields of ReplicaTerms; the others stay. ``api_key`` None keeps the one it has,
    empty removes it."""
    checked = dict(changes)
    if "base_url" in changes:
        checked["base_url"] = checked_url(changes["base_url"])
    sealed = None if api_key is None else seal(clean_api_key(api_key))
    return _change(slug, checked, sealed, actor, why)


def drain(*, slug: str, actor: Actor, why: str = "") -> AuditEntry:
    """It finishes its calls and gets no new ones."""
    return switch(slug=slug, state=ReplicaSetting.DRAINING, actor=actor, why=why)


def disable(*, slug: str, actor: Actor, why: str = "") -> AuditEntry:
    """No new calls, no probes."""
    return switch(slug=slug, state=ReplicaSetting.DISABLED, actor=actor, why=why)


def enable(*, slug: str, actor: Actor, why: str = "") -> AuditEntry:
    return switch(slug=slug, state=ReplicaSetting.ENABLED, actor=actor, why=why)


@transactional
def switch(*, slug: str, state: ReplicaSetting, actor: Actor, why: str = "") -> AuditEntry:
    """Compare and set; a replica that is in that state already is refused."""
    versions.bump()
    row = select.replica(slug)
    changed = Replica.objects.filter(pk=row.pk, state=row.state).exclude(state=state)
    if not changed.update(state=state):
        raise AlreadyExists(f"The replica {slug} is {state} already.", next_step="Nothing to do.")
    before, after = {"state": str(row.state)}, {"state": str(state)}
    return _record(slug, f"replica.{_VERBS[state]}", actor, why, before, after)


@transactional
def remove(*, slug: str, actor: Actor, why: str = "") -> AuditEntry:
    """Its calls in flight finish; ledger rows keep its slug."""
    versions.bump()
    row = select.replica(slug)
    before = shown(row)
    row.delete()
    return _record(slug, "replica.remove", actor, why, before, None)


def shown(row: Replica) -> dict[str, Any]:
    """JSON values; of the API key only whether there is one."""
    columns = ReplicaTerms.of(row).columns()
    key = "set" if row.sealed_api_key else "none"
    return {"pool": row.pool.slug, "state": str(row.state), **columns, "api_key": key}


@transactional
def _create(slug: str, pool: str, columns: dict[str, Any], actor: Actor, why: str) -> Replica:
    versions.bump()
    if Replica.objects.filter(slug=clean_slug(slug)).exists():
        raise AlreadyExists(
            f"The replica {slug} exists already.", next_step="Change it, or choose another slug."
        )
    row = Replica.objects.create(slug=slug, pool=select.pool(pool), **columns)
    _record(slug, "replica.create", actor, why, None, shown(row))
    return row


@transactional
def _change(
    slug: str, changes: Mapping[str, Any], sealed: str | None, actor: Actor, why: str
) -> AuditEntry:
    versions.bump()
    row = select.replica(slug)
    before = shown(row)
    columns = replace(ReplicaTerms.of(row), **changes).checked().columns()
    if sealed is not None:
        columns["sealed_api_key"] = sealed
    Replica.objects.filter(pk=row.pk).update(**columns)
    after = shown(select.replica(slug))
    if sealed:
        after["api_key"] = "replaced"
    return _record(slug, "replica.change", actor, why, before, after)


def _record(
    slug: str,
    action: str,
    actor: Actor,
    why: str,
    before: dict[str, Any] | None,
    after: dict[str, Any] | None,
) -> AuditEntry:
    return audit.record(
        actor=actor, action=action, target=f"replica:{slug}", before=before, after=after, why=why
    )


_VERBS = {
    ReplicaSetting.ENABLED: "enable",
    ReplicaSetting.DRAINING: "drain",
    ReplicaSetting.DISABLED: "disable",
}
