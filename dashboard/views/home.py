"""``/``: the fleet for an operator, the own organization for a member."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from dashboard.access import CHOSEN, Viewer, page, page_of_any_tab
from dashboard.live.audience import OPERATORS, MembersOf
from dashboard.quota import credit_use, limit_states
from dashboard.selectors import live_facts
from tenants.selectors.audit import entries
from tenants.selectors.organizations import organization

LATEST_CHANGES = 3


@page
def home(request: HttpRequest, viewer: Viewer) -> HttpResponse:
    return _fleet(request, viewer) if viewer.is_operator else _own(request, viewer)


def _fleet(request: HttpRequest, viewer: Viewer) -> HttpResponse:
    context = {
        "viewer": viewer,
        "here": "home",
        "is_fleet": True,
        "facts": live_facts(request, OPERATORS),
        "audit": entries()[:LATEST_CHANGES],
    }
    return render(request, "dashboard/fleet.html", context)


def _own(request: HttpRequest, viewer: Viewer) -> HttpResponse:
    assert viewer.tenant is not None
    context = {
        "viewer": viewer,
        "here": "home",
        "is_fleet": False,
        "facts": live_facts(request, MembersOf(viewer.tenant)),
        "organization": organization(viewer.tenant),
        **_quota(request, viewer.tenant),
    }
    return render(request, "dashboard/own.html", context)


@page
def limits(request: HttpRequest, viewer: Viewer) -> HttpResponse:
    """The fragment that a tenant's page reads again every few seconds."""
    if viewer.tenant is None:
        return HttpResponse(status=204)
    return render(request, "dashboard/limit_bars.html", _quota(request, viewer.tenant))


def _quota(request: HttpRequest, slug: str) -> dict[str, object]:
    return {"limits": limit_states(request, slug), "credit": credit_use(request, slug)}


@require_POST
@page_of_any_tab
def choose_organization(request: HttpRequest, viewer: Viewer) -> HttpResponse:
    """One of the viewer's own; any other slug changes nothing."""
    slug = request.POST.get("slug", "")
    if slug in {other for other, _ in viewer.others}:
        request.session[CHOSEN] = slug
    return redirect("dashboard:home")
