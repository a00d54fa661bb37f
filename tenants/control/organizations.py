"""Tenants and plans: read, create, rename, weight, highest class, plan, suspend, resume."""

from __future__ import annotations

from django.http import HttpRequest
from ninja import Status

from tenants.control import rendering
from tenants.control.access import new_router, principal_of
from tenants.control.schemas import (
    AuditShown,
    ClassBody,
    LimitBody,
    PlanChangeBody,
    PlanShown,
    PrincipalShown,
    RenameBody,
    TenantBody,
    TenantShown,
    WeightBody,
    Why,
    WhyNot,
    answers,
)
from tenants.permissions import Action, require, require_operator
from tenants.selectors import organizations as select
from tenants.services import limits, organizations

router = new_router("tenants")
AUDITED = answers(AuditShown)


@router.get("/me", response=answers(PrincipalShown))
def me(request: HttpRequest) -> PrincipalShown:
    """Who the caller is and what it is in which tenant."""
    return rendering.principal(principal_of(request))


@router.get("/plans", response=answers(list[PlanShown]))
def list_plans(request: HttpRequest) -> list[PlanShown]:
    return [rendering.plan(row) for row in select.plans()]


@router.put("/plans/{plan}/limits", response=AUDITED)
def set_plan_limit(request: HttpRequest, plan: str, body: LimitBody) -> AuditShown:
    """Operators: changes the limit of every tenant of the plan that has no own one."""
    principal = principal_of(request)
    require_operator(principal)
    entry = limits.set_plan_limit(
        plan=plan, limit=body.limit(), actor=principal.actor, why=body.why or "not given"
    )
    return rendering.audit(entry)


@router.get("/tenants", response=answers(list[TenantShown]))
def list_tenants(request: HttpRequest) -> list[TenantShown]:
    """Those that the caller has something to do with; operators see all."""
    principal = principal_of(request)
    rows = select.organizations()
    if not principal.operator:
        rows = rows.filter(slug__in=principal.roles)
    return [rendering.tenant(row, principal) for row in rows]


@router.post("/tenants", response=answers(TenantShown, status=201))
def create_tenant(request: HttpRequest, body: TenantBody) -> Status[TenantShown]:
    """Operators only."""
    principal = principal_of(request)
    require_operator(principal)
    row = organizations.create(actor=principal.actor, **body.dict())
    return Status(201, rendering.tenant(row, principal))


@router.get("/tenants/{slug}", response=answers(TenantShown))
def show_tenant(request: HttpRequest, slug: str) -> TenantShown:
    principal = principal_of(request)
    require(principal, Action.VIEW, slug)
    return rendering.tenant(select.organization(slug), principal)


@router.patch("/tenants/{slug}", response=AUDITED)
def rename_tenant(request: HttpRequest, slug: str, body: RenameBody) -> AuditShown:
    """The slug stays: it never changes."""
    principal = principal_of(request)
    require(principal, Action.RENAME, slug)
    return rendering.audit(organizations.rename(slug=slug, actor=principal.actor, **body.dict()))


@router.put("/tenants/{slug}/weight", response=AUDITED)
def set_weight(request: HttpRequest, slug: str, body: WeightBody) -> AuditShown:
    """Operators. The audit entry's id undoes it."""
    principal = principal_of(request)
    require(principal, Action.OPERATE, slug)
    entry = organizations.set_weight(slug=slug, actor=principal.actor, **body.dict())
    return rendering.audit(entry)


@router.put("/tenants/{slug}/highest-class", response=AUDITED)
def set_highest_class(request: HttpRequest, slug: str, body: ClassBody) -> AuditShown:
    """Operators. The audit entry's id undoes it."""
    principal = principal_of(request)
    require(principal, Action.OPERATE, slug)
    entry = organizations.set_highest_class(slug=slug, actor=principal.actor, **body.dict())
    return rendering.audit(entry)


@router.put("/tenants/{slug}/plan", response=AUDITED)
def set_plan(request: HttpRequest, slug: str, body: PlanChangeBody) -> AuditShown:
    """Operators."""
    principal = principal_of(request)
    require(principal, Action.OPERATE, slug)
    return rendering.audit(organizations.set_plan(slug=slug, actor=principal.actor, **body.dict()))


@router.post("/tenants/{slug}/suspend", response=AUDITED)
def suspend(request: HttpRequest, slug: str, body: Why) -> AuditShown:
    """Operators: new calls are refused within a second."""
    principal = principal_of(request)
    require(principal, Action.OPERATE, slug)
    return rendering.audit(organizations.suspend(slug=slug, actor=principal.actor, why=body.why))


@router.post("/tenants/{slug}/resume", response=AUDITED)
def resume(request: HttpRequest, slug: str, body: WhyNot) -> AuditShown:
    """Operators."""
    principal = principal_of(request)
    require(principal, Action.OPERATE, slug)
    return rendering.audit(organizations.resume(slug=slug, actor=principal.actor, why=body.why))
