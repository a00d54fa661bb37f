"""Writes of operators: create, enable, disable. The installation keeps its last one.

Keyword-only; each is one transaction and leaves one audit row.
"""

from __future__ import annotations

from django.utils import timezone

from tenants.actors import Actor
from tenants.errors import AlreadyExists, Stale
from tenants.models import AuditEntry, Operator
from tenants.selectors.people import operator
from tenants.services import audit, versions
from tenants.services.accounts import Account, find_or_make
from tenants.services.transactions import transactional


@transactional
def create(*, username: str, actor: Actor, password: str | None = None, why: str = "") -> Account:
    versions.bump()
    user, made_up = find_or_make(username, password)
    if Operator.objects.filter(user=user).exists():
        raise AlreadyExists(
            f"{username} is an operator already.",
            next_step=f"Set a password with: manage.py operator change {username}",
        )
    Operator.objects.create(user=user)
    _record("create", username, None, True, actor, why)
    return Account(username, made_up)


@transactional
def disable(*, username: str, actor: Actor, why: str = "") -> AuditEntry:
    return _switch(username, actor, why, enabled=False)


@transactional
def enable(*, username: str, actor: Actor, why: str = "") -> AuditEntry:
    return _switch(username, actor, why, enabled=True)


def _switch(username: str, actor: Actor, why: str, *, enabled: bool) -> AuditEntry:
    versions.bump()
    row = operator(username)
    if (row.disabled_at is None) is enabled:
        state = "enabled" if enabled else "disabled"
        raise AlreadyExists(f"{username} is {state} already.", next_step="Nothing to do.")
    row.disabled_at = None if enabled else timezone.now()
    row.save(update_fields=("disabled_at",))
    if not Operator.objects.filter(disabled_at=None).exists():
        raise Stale("This is the last operator.", next_step="Create another one first.")
    return _record("enable" if enabled else "disable", username, not enabled, enabled, actor, why)


def _record(
    verb: str, username: str, before: bool | None, after: bool, actor: Actor, why: str
) -> AuditEntry:
    return audit.record(
        actor=actor,
        action=f"operator.{verb}",
        target=f"operator:{username}",
        before=None if before is None else {"enabled": before},
        after={"enabled": after},
        why=why,
    )
