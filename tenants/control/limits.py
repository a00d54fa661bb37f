"""Limits of a tenant and of its keys, and its credit account."""

from __future__ import annotations

from django.http import HttpRequest

from tenants.control import rendering
from tenants.control.access import new_router, principal_of
from tenants.control.schemas import (
    AuditShown,
    CreditShown,
    GrantBody,
    LimitBody,
    LimitShown,
    RefundBody,
    answers,
)
from tenants.errors import NotFound
from tenants.permissions import Action, require
from tenants.quota_use import credit_now
from tenants.selectors.limits import effective_limits, limits_of_key
from tenants.services import credit, limits

router = new_router("limits")
OF_TENANT = "/tenants/{slug}/limits"
OF_KEY = "/tenants/{slug}/keys/{key_id}/limits"
CREDIT = "/tenants/{slug}/credit"
AUDITED = answers(AuditShown)


@router.get(OF_TENANT, response=answers(list[LimitShown]))
def list_limits(request: HttpRequest, slug: str) -> list[LimitShown]:
    """What applies to the tenant, and whether it comes from its plan."""
    require(principal_of(request), Action.VIEW, slug)
    return rendering.effective(effective_limits(slug))


@router.put(OF_TENANT, response=AUDITED)
def set_limit(request: HttpRequest, slug: str, body: LimitBody) -> AuditShown:
    """Operators: replaces the plan's limit of the same meter, pool and class."""
    principal = principal_of(request)
    require(principal, Action.OPERATE, slug)
    entry = limits.set_limit(slug=slug, limit=body.limit(), actor=principal.actor, why=body.why)
    return rendering.audit(entry)


@router.delete(OF_TENANT, response=AUDITED)
def clear_limit(
    request: HttpRequest, slug: str, meter: str, pool: str = "*", klass: str = "*"
) -> AuditShown:
    """Operators: back to the plan's limit."""
    principal = principal_of(request)
    require(principal, Action.OPERATE, slug)
    return rendering.audit(
        limits.clear_limit(slug=slug, meter=meter, pool=pool, klass=klass, actor=principal.actor)
    )


@router.get(OF_KEY, response=answers(list[LimitShown]))
def list_key_limits(request: HttpRequest, slug: str, key_id: str) -> list[LimitShown]:
    require(principal_of(request), Action.VIEW, slug)
    return [rendering.limit(value, "key") for value in limits_of_key(slug, key_id)]


@router.put(OF_KEY, response=AUDITED)
def set_key_limit(request: HttpRequest, slug: str, key_id: str, body: LimitBody) -> AuditShown:
    """Applies besides the tenant's limits, never instead of them."""
    principal = principal_of(request)
    require(principal, Action.SET_KEY_LIMITS, slug)
    return rendering.audit(
        limits.set_limit(
            slug=slug, key_id=key_id, limit=body.limit(), actor=principal.actor, why=body.why
        )
    )


@router.delete(OF_KEY, response=AUDITED)
def clear_key_limit(
    request: HttpRequest, slug: str, key_id: str, meter: str, pool: str = "*", klass: str = "*"
) -> AuditShown:
    principal = principal_of(request)
    require(principal, Action.SET_KEY_LIMITS, slug)
    return rendering.audit(
        limits.clear_limit(
            slug=slug, key_id=key_id, meter=meter, pool=pool, klass=klass, actor=principal.actor
        )
    )


@router.get(CREDIT, response=answers(CreditShown))
def show_credit(request: HttpRequest, slug: str) -> CreditShown:
    require(principal_of(request), Action.VIEW, slug)
    state = credit_now(request, slug)
    if state is None:
        raise NotFound(f"{slug} has no credit account.", next_step="A grant opens one.")
    return CreditShown.from_orm(state)


@router.post(CREDIT + "/grants", response=AUDITED)
def grant_credit(request: HttpRequest, slug: str, body: GrantBody) -> AuditShown:
    """Operators: the first grant opens the account."""
    principal = principal_of(request)
    require(principal, Action.OPERATE, slug)
    return rendering.audit(credit.grant(slug=slug, actor=principal.actor, **body.dict()))


@router.post(CREDIT + "/refunds", response=AUDITED)
def refund_credit(request: HttpRequest, slug: str, body: RefundBody) -> AuditShown:
    """Operators: at most what was charged."""
    principal = principal_of(request)
    require(principal, Action.OPERATE, slug)
    return rendering.audit(credit.refund(slug=slug, actor=principal.actor, **body.dict()))
