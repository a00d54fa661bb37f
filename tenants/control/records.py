"""What happened: ledger, usage, audit trail, and undo by audit entry."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from django.http import HttpRequest
from django.utils import timezone
from ninja import Query
from pydantic import AwareDatetime

from tenants.control import rendering
from tenants.control.access import new_router, principal_of
from tenants.control.schemas import AuditShown, CallShown, TotalsShown, WhyNot, answers
from tenants.permissions import Action, require, require_operator
from tenants.selectors import audit as select_audit
from tenants.selectors import ledger as select_ledger
from tenants.selectors.ledger import PAGE_MAX, Span, month_span
from tenants.services.undo import undo

router = new_router("records")
Moment = Annotated[
    AwareDatetime, Query(ge=datetime(2000, 1, 1, tzinfo=UTC), lt=datetime(3000, 1, 1, tzinfo=UTC))
]
PageSize = Annotated[int, Query(ge=1, le=PAGE_MAX)]


@router.get("/tenants/{slug}/calls", response=answers(list[CallShown]))
def list_calls(
    request: HttpRequest,
    slug: str,
    key_id: str | None = None,
    before: str | None = None,
    limit: PageSize = PAGE_MAX,
) -> list[CallShown]:
    """Newest first; ``before`` is the last call id of the page before."""
    require(principal_of(request), Action.VIEW, slug)
    rows = select_ledger.recent_calls(tenant=slug, key_id=key_id, before=before)
    return [rendering.call(row) for row in rows[:limit]]


@router.get("/tenants/{slug}/usage", response=answers(list[TotalsShown]))
def usage(
    request: HttpRequest,
    slug: str,
    by: str = "model",
    since: Moment | None = None,
    until: Moment | None = None,
) -> list[TotalsShown]:
    """Sums of [since, until), of this UTC month where both are left out."""
    require(principal_of(request), Action.VIEW, slug)
    month = month_span(until or timezone.now())
    span = Span(since or month.since, until or month.until)
    rows = select_ledger.totals_by(group=by, span=span, tenant=slug)
    return [rendering.totals(row) for row in rows]


@router.get("/tenants/{slug}/audit", response=answers(list[AuditShown]))
def tenant_audit(
    request: HttpRequest, slug: str, before_id: int | None = None, limit: PageSize = PAGE_MAX
) -> list[AuditShown]:
    require(principal_of(request), Action.VIEW_AUDIT, slug)
    rows = select_audit.entries(tenant=slug, before_id=before_id)
    return [rendering.audit(row) for row in rows[:limit]]


@router.get("/audit", response=answers(list[AuditShown]))
def all_audit(
    request: HttpRequest, before_id: int | None = None, limit: PageSize = PAGE_MAX
) -> list[AuditShown]:
    """Operators."""
    require_operator(principal_of(request))
    return [rendering.audit(row) for row in select_audit.entries(before_id=before_id)[:limit]]


@router.post("/audit/{entry_id}/undo", response=answers(AuditShown))
def undo_change(request: HttpRequest, entry_id: int, body: WhyNot) -> AuditShown:
    """Operators: takes a change of weight or class back, unless something newer changed it."""
    principal = principal_of(request)
    require_operator(principal)
    return rendering.audit(undo(entry_id=entry_id, actor=principal.actor, why=body.why))
