"""Rows as answers of the control API."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict

from gateway.core.limits.limit import Limit
from gateway.core.priority import PriorityClass, label_of
from tenants.control import schemas
from tenants.key_terms import KeyTerms
from tenants.models import ApiKey, AuditEntry, LedgerCall, Member, Organization, Plan
from tenants.permissions import Principal
from tenants.selectors.ledger import Totals
from tenants.selectors.limits import EffectiveLimit


def limit(value: Limit, source: str = "") -> schemas.LimitShown:
    return schemas.LimitShown(source=source, **asdict(value))


def effective(values: Iterable[EffectiveLimit]) -> list[schemas.LimitShown]:
    return [limit(value.limit, value.source) for value in values]


def plan(row: Plan) -> schemas.PlanShown:
    return schemas.PlanShown(
        slug=row.slug,
        name=row.name,
        weight=row.weight,
        highest_class=PriorityClass(row.highest_class).label,
        cached_ratio=row.cached_ratio,
        over_limit=row.over_limit,
        limits=[limit(one.value(), "plan") for one in row.limits.all()],
    )


def tenant(row: Organization, principal: Principal) -> schemas.TenantShown:
    return schemas.TenantShown(
        slug=row.slug,
        name=row.name,
        plan=row.plan.slug,
        weight=row.weight,
        highest_class=PriorityClass(row.highest_class).label,
        suspended=row.suspended,
        suspended_why=row.suspended_why,
        version=row.version,
        created_at=row.created_at,
        role=str(principal.role_in(row.slug)),
    )


def key(row: ApiKey) -> schemas.KeyShown:
    terms = KeyTerms.of(row)
    return schemas.KeyShown(
        key_id=row.key_id,
        masked=row.masked,
        label=row.label,
        scopes=list(terms.scopes),
        models=list(terms.models),
        highest_class=terms.highest_class,
        default_class=terms.default_class,
        allowed_networks=list(terms.allowed_networks),
        enabled=row.enabled,
        created_at=row.created_at,
        created_by=row.created_by,
        expires_at=row.expires_at,
        last_used_at=row.last_used_at,
        rotated_to=row.rotated_to.key_id if row.rotated_to else None,
        limits=[limit(one.value(), "key") for one in row.limits.all()],
    )


def issued(row: ApiKey, secret: str) -> schemas.KeyIssued:
    return schemas.KeyIssued(api_key=secret, **key(row).model_dump())


def member(row: Member) -> schemas.MemberShown:
    return schemas.MemberShown(username=row.user.username, role=row.role, created_at=row.created_at)


def audit(row: AuditEntry) -> schemas.AuditShown:
    names = schemas.AuditShown.model_fields
    return schemas.AuditShown(**{name: getattr(row, name) for name in names})


def call(row: LedgerCall) -> schemas.CallShown:
    names = [name for name in schemas.CallShown.model_fields if name != "klass"]
    return schemas.CallShown(
        klass=label_of(row.klass), **{name: getattr(row, name) for name in names}
    )


def totals(value: Totals) -> schemas.TotalsShown:
    return schemas.TotalsShown(**asdict(value))


def principal(value: Principal) -> schemas.PrincipalShown:
    return schemas.PrincipalShown(
        actor=str(value.actor),
        operator=value.operator,
        roles={slug: str(role) for slug, role in value.roles.items()},
    )
