"""API keys of a tenant: read, create, change, disable, enable, rotate."""

from __future__ import annotations

from dataclasses import replace

from django.http import HttpRequest
from ninja import Status

from tenants.control import rendering
from tenants.control.access import new_router, principal_of
from tenants.control.schemas import (
    AuditShown,
    KeyBody,
    KeyChangeBody,
    KeyIssued,
    KeyShown,
    RotateBody,
    WhyNot,
    answers,
)
from tenants.key_terms import KeyTerms
from tenants.models import Scope
from tenants.permissions import Action, Principal, require
from tenants.selectors import keys as select
from tenants.services import keys

router = new_router("keys")
KEYS = "/tenants/{slug}/keys"
KEY = KEYS + "/{key_id}"
AUDITED = answers(AuditShown)


@router.get(KEYS, response=answers(list[KeyShown]))
def list_keys(request: HttpRequest, slug: str) -> list[KeyShown]:
    require(principal_of(request), Action.VIEW, slug)
    return [rendering.key(row) for row in select.keys_of(slug)]


@router.post(KEYS, response=answers(KeyIssued, status=201))
def create_key(request: HttpRequest, slug: str, body: KeyBody) -> Status[KeyIssued]:
    """The answer holds the secret, this once. A key with scope manage needs an owner."""
    principal = principal_of(request)
    require(principal, Action.MANAGE_KEYS, slug)
    terms = KeyTerms(**body.dict(exclude={"why"}))
    _require_for_scopes(principal, slug, terms)
    issued = keys.create(slug=slug, terms=terms, actor=principal.actor, why=body.why)
    return Status(201, rendering.issued(issued.key, issued.secret))


@router.get(KEY, response=answers(KeyShown))
def show_key(request: HttpRequest, slug: str, key_id: str) -> KeyShown:
    require(principal_of(request), Action.VIEW, slug)
    return rendering.key(select.key(slug, key_id))


@router.patch(KEY, response=AUDITED)
def change_key(request: HttpRequest, slug: str, key_id: str, body: KeyChangeBody) -> AuditShown:
    principal = principal_of(request)
    current = _current_terms(principal, slug, key_id)
    changes = body.dict(exclude_unset=True, exclude={"why"})
    if changes.get("expires_at", True) is not None:
        changes = {name: value for name, value in changes.items() if value is not None}
    terms = replace(current, **changes)
    _require_for_scopes(principal, slug, terms)
    return rendering.audit(
        keys.change(slug=slug, key_id=key_id, terms=terms, actor=principal.actor, why=body.why)
    )


@router.post(KEY + "/disable", response=AUDITED)
def disable_key(request: HttpRequest, slug: str, key_id: str, body: WhyNot) -> AuditShown:
    """Calls with it are refused within a second."""
    principal = principal_of(request)
    _current_terms(principal, slug, key_id)
    return rendering.audit(
        keys.disable(slug=slug, key_id=key_id, actor=principal.actor, why=body.why)
    )


@router.post(KEY + "/enable", response=AUDITED)
def enable_key(request: HttpRequest, slug: str, key_id: str, body: WhyNot) -> AuditShown:
    principal = principal_of(request)
    _current_terms(principal, slug, key_id)
    return rendering.audit(
        keys.enable(slug=slug, key_id=key_id, actor=principal.actor, why=body.why)
    )


@router.post(KEY + "/rotate", response=answers(KeyIssued, status=201))
def rotate_key(request: HttpRequest, slug: str, key_id: str, body: RotateBody) -> Status[KeyIssued]:
    """A successor with the same terms; the old key lives until the grace ends."""
    principal = principal_of(request)
    _current_terms(principal, slug, key_id)
    issued = keys.rotate(
        slug=slug, key_id=key_id, actor=principal.actor, why=body.why, grace_s=body.grace_s
    )
    return Status(201, rendering.issued(issued.key, issued.secret))


def _current_terms(principal: Principal, slug: str, key_id: str) -> KeyTerms:
    """Of a key that the principal may manage."""
    require(principal, Action.MANAGE_KEYS, slug)
    terms = KeyTerms.of(select.key(slug, key_id))
    _require_for_scopes(principal, slug, terms)
    return terms


def _require_for_scopes(principal: Principal, slug: str, terms: KeyTerms) -> None:
    if Scope.MANAGE in terms.scopes:
        require(principal, Action.MANAGE_MANAGEMENT_KEYS, slug)
