"""Writes of API keys: create, change, disable, enable, rotate, and when they were last used.

``create`` and ``rotate`` return the secret, once; the row keeps its keyed hash. Keyword-only; each
is one transaction, adds one to the configuration version and leaves one audit row; ``note_used``
does neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.utils import timezone

from tenants import key_format
from tenants.actors import Actor
from tenants.errors import AlreadyExists, Invalid
from tenants.key_terms import KeyTerms, clean_expiry
from tenants.models import ApiKey, AuditEntry, KeyLimit, Organization
from tenants.selectors import keys as select
from tenants.selectors.organizations import organization
from tenants.services import audit, versions
from tenants.services.transactions import transactional

KEYS_PER_TENANT = 1000
GRACE_MAX_S = 30 * 86_400.0
LAST_USED_STEP = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class IssuedKey:
    """``secret`` cannot be read again."""

    key: ApiKey
    secret: str = field(repr=False)


@transactional
def create(*, slug: str, terms: KeyTerms, actor: Actor, why: str = "") -> IssuedKey:
    versions.bump()
    owner = organization(slug)
    cleaned = replace(terms.cleaned(), expires_at=clean_expiry(terms.expires_at))
    _refuse_too_many(owner)
    issued = _issue(owner, cleaned, actor)
    _record(issued.key, "key.create", actor, why, None, cleaned.shown())
    return issued


@transactional
def change(*, slug: str, key_id: str, terms: KeyTerms, actor: Actor, why: str = "") -> AuditEntry:
    """Replaces all terms: start from ``KeyTerms.of(row)``."""
    versions.bump()
    row = select.key(slug, key_id)
    before = KeyTerms.of(row)
    after = terms.cleaned()
    if after.expires_at != before.expires_at:
        clean_expiry(after.expires_at)
    ApiKey.objects.filter(pk=row.pk).update(**after.columns())
    return _record(row, "key.change", actor, why, before.shown(), after.shown())


@transactional
def disable(*, slug: str, key_id: str, actor: Actor, why: str = "") -> AuditEntry:
    """Refused from the next snapshot on; ``enable`` takes it back."""
    return _switch(slug, key_id, actor, why, enabled=False)


@transactional
def enable(*, slug: str, key_id: str, actor: Actor, why: str = "") -> AuditEntry:
    return _switch(slug, key_id, actor, why, enabled=True)


@transactional
def rotate(
    *, slug: str, key_id: str, actor: Actor, why: str = "", grace_s: float | None = None
) -> IssuedKey:
    """A successor with the same terms and limits. Both live until the grace ends, then only it."""
    versions.bump()
    row = select.key(slug, key_id)
    _refuse_unrotatable(row)
    _refuse_too_many(row.organization)
    issued = _issue(row.organization, KeyTerms.of(row), actor)
    KeyLimit.objects.bulk_create(
        KeyLimit(key=issued.key, **KeyLimit.columns(limit.value())) for limit in row.limits.all()
    )
    ends_at = _end_of_grace(row, grace_s)
    ApiKey.objects.filter(pk=row.pk).update(rotated_to=issued.key, expires_at=ends_at)
    after = {"rotated_to": issued.key.key_id, "expires_at": ends_at.isoformat()}
    _record(row, "key.rotate", actor, why, KeyTerms.of(row).shown(), after)
    return issued


@transactional
def note_used(*, used: Mapping[str, datetime]) -> int:
    """When each key id was last used, in bulk; a row moves only forward and by a minute or more."""
    rows = ApiKey.objects.filter(key_id__in=used).only("key_id", "last_used_at").order_by("pk")
    due = [row for row in rows if _moves(row, used[row.key_id])]
    for row in due:
        row.last_used_at = used[row.key_id]
    return ApiKey.objects.bulk_update(due, ("last_used_at",))


def _moves(row: ApiKey, at: datetime) -> bool:
    return row.last_used_at is None or at >= row.last_used_at + LAST_USED_STEP


def _issue(owner: Organization, terms: KeyTerms, actor: Actor) -> IssuedKey:
    secret, key_id = key_format.generate()
    row = ApiKey.objects.create(
        organization=owner,
        key_id=key_id,
        digest=key_format.digest(secret, settings.FAIRWAY_TENANTS.key_pepper),
        hint=secret[-4:],
        created_by=str(actor),
        **terms.columns(),
    )
    return IssuedKey(row, secret)


def _switch(slug: str, key_id: str, actor: Actor, why: str, *, enabled: bool) -> AuditEntry:
    versions.bump()
    row = select.key(slug, key_id)
    state = "enabled" if enabled else "disabled"
    if row.enabled is enabled:
        raise AlreadyExists(f"Key {key_id} is {state} already.", next_step="Nothing to do.")
    disabled_at = None if enabled else timezone.now()
    ApiKey.objects.filter(pk=row.pk).update(disabled_at=disabled_at)
    action = "key.enable" if enabled else "key.disable"
    return _record(row, action, actor, why, {"enabled": not enabled}, {"enabled": enabled})


def _end_of_grace(row: ApiKey, grace_s: float | None) -> datetime:
    """Never after the key's own expiry."""
    seconds = settings.FAIRWAY_TENANTS.rotation_grace_s if grace_s is None else grace_s
    if not 0 <= seconds <= GRACE_MAX_S:
        raise Invalid(
            f"A grace of {seconds} s is not accepted.",
            next_step=f"Give 0 to {GRACE_MAX_S:.0f}.",
            field="grace_s",
        )
    ends_at = timezone.now() + timedelta(seconds=seconds)
    return min(ends_at, row.expires_at) if row.expires_at else ends_at


def _refuse_unrotatable(row: ApiKey) -> None:
    if row.rotated_to is not None:
        raise AlreadyExists(
            f"Key {row.key_id} was rotated already.",
            next_step=f"Rotate {row.rotated_to.key_id}.",
        )
    if not row.enabled or (row.expires_at and row.expires_at <= timezone.now()):
        raise Invalid(
            f"Key {row.key_id} is disabled or expired.", next_step="Create a new key instead."
        )


def _refuse_too_many(owner: Organization) -> None:
    if owner.keys.filter(disabled_at=None).count() >= KEYS_PER_TENANT:
        raise Invalid(
            f"{owner.slug} has {KEYS_PER_TENANT} keys.", next_step="Disable one that is unused."
        )


def _record(
    row: ApiKey,
    action: str,
    actor: Actor,
    why: str,
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any],
) -> AuditEntry:
    return audit.record(
        actor=actor,
        action=action,
        target=f"key:{row.key_id}",
        tenant=row.organization.slug,
        before=before,
        after=after,
        why=why,
    )
