"""One call: its live status while it runs here, its explanation afterwards."""

from __future__ import annotations

import time
from typing import Annotated

from django.http import HttpRequest
from ninja import Path

from gateway.active_calls import ActiveCall
from gateway.control import explanation
from gateway.control.decision_words import routing_of
from gateway.control.live import running_gateway
from gateway.control.schemas import AttemptShown, CallLive, CallTold
from gateway.core.priority import label_of
from tenants.control import rendering
from tenants.control.access import new_router, principal_of
from tenants.control.schemas import answers
from tenants.models import LedgerAttempt, LedgerCall
from tenants.permissions import Action, Principal
from tenants.selectors import ledger

router = new_router("calls")


@router.get("/calls/{call_id}", response=answers(CallTold))
def tell_call(request: HttpRequest, call_id: Annotated[str, Path(max_length=80)]) -> CallTold:
    """To whoever may see its tenant; for all others it does not exist."""
    principal = principal_of(request)
    gateway = running_gateway(request)
    call = gateway.active.get(call_id) if gateway else None
    if call is not None and _may_see(principal, call.opening.tenant):
        return _running(call)
    row = ledger.call(call_id)
    if not _may_see(principal, row.tenant):
        raise ledger.no_call(call_id)
    return _ended(row, principal)


def _may_see(principal: Principal, tenant: str) -> bool:
    return principal.may(Action.VIEW, tenant)


def _running(call: ActiveCall) -> CallTold:
    opening = call.opening
    running_s = max(0.0, time.time() - opening.arrived_at)
    return CallTold(
        call_id=opening.call_id,
        tenant=opening.tenant,
        status="running",
        explanation=explanation.of_running(call, running_s),
        model=opening.model,
        pool=opening.pool,
        klass=opening.klass.label,
        live=CallLive(
            phase=call.phase.name.lower(),
            running_s=running_s,
            replica=call.replica,
            received_tokens=call.received_tokens,
            prompt_tokens=call.prompt_tokens,
            cached_tokens=call.cached_tokens,
            reserved_tokens=opening.reserved_tokens,
        ),
    )


def _ended(row: LedgerCall, principal: Principal) -> CallTold:
    return CallTold(
        call_id=row.call_id,
        tenant=row.tenant,
        status=row.outcome,
        explanation=explanation.of_ended(row),
        routing=routing_of(row.call_id, for_operator=principal.operator),
        model=row.model,
        pool=row.pool,
        klass=label_of(row.klass),
        record=rendering.call(row),
        attempts=[_attempt(each, for_operator=principal.operator) for each in row.attempts.all()],
    )


def _attempt(attempt: LedgerAttempt, *, for_operator: bool) -> AttemptShown:
    shown = {name: getattr(attempt, name) for name in AttemptShown.model_fields}
    return AttemptShown(**(shown if for_operator else shown | {"said": ""}))
