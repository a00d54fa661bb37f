"""The last calls, and the page of one call. A foreign call does not exist."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from dashboard.access import Viewer, page
from dashboard.explain import explain, steps
from gateway.control.decision_words import routing_of
from tenants.errors import NotFound
from tenants.selectors import ledger

PAGE_CALLS = 50


@page
def calls(request: HttpRequest, viewer: Viewer) -> HttpResponse:
    tenant = request.GET.get("tenant") or None if viewer.is_operator else viewer.tenant
    before = request.GET.get("before") or None
    try:
        found = list(ledger.recent_calls(tenant=tenant, before=before)[: PAGE_CALLS + 1])
    except NotFound as error:
        raise Http404(error.message) from error
    context = {
        "viewer": viewer,
        "here": "calls",
        "tenant": tenant,
        "calls": found[:PAGE_CALLS],
        "older": found[PAGE_CALLS - 1].call_id if len(found) > PAGE_CALLS else None,
    }
    return render(request, "dashboard/calls.html", context)


@page
def call(request: HttpRequest, viewer: Viewer, call_id: str) -> HttpResponse:
    try:
        row = ledger.call(call_id, tenant=None if viewer.is_operator else viewer.tenant)
    except NotFound as error:
        raise Http404(error.message) from error
    bars = steps(row)
    context = {
        "viewer": viewer,
        "here": "calls",
        "call": row,
        "verdict": explain(row),
        "routing": routing_of(call_id, for_operator=viewer.is_operator),
        "steps": bars,
        "span_s": max((row.duration_s, *(bar.end_s for bar in bars))) or 1.0,
        "refunded": max(0, row.reserved_tokens - row.prompt_tokens - row.completion_tokens),
    }
    return render(request, "dashboard/call.html", context)
