"""What was changed, by whom, why, and since which version it is in effect."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from dashboard.access import Viewer, operator_page
from dashboard.views.home import LATEST_CHANGES
from tenants.selectors.audit import entries

PAGE_ROWS = 50


@operator_page
def audit(request: HttpRequest, viewer: Viewer) -> HttpResponse:
    """The page; the rows alone where a script reads them again."""
    before = request.GET.get("before", "")
    tenant = request.GET.get("tenant") or None
    rows = entries(tenant=tenant, before_id=int(before) if before.isdecimal() else None)
    found = list(rows[: PAGE_ROWS + 1])
    context = {
        "viewer": viewer,
        "here": "audit",
        "tenant": tenant,
        "entries": found[:PAGE_ROWS],
        "older": found[PAGE_ROWS - 1].pk if len(found) > PAGE_ROWS else None,
    }
    name = "audit_rows" if request.headers.get("HX-Request") else "audit"
    return render(request, f"dashboard/{name}.html", context)


@operator_page
def latest(request: HttpRequest, viewer: Viewer) -> HttpResponse:
    context = {"entries": entries()[:LATEST_CHANGES]}
    return render(request, "dashboard/audit_feed.html", context)
