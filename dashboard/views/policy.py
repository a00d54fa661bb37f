"""An operator changes a tenant's weight or highest class: form, review, result, undo."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_POST

from dashboard.access import Viewer, actor_of, operator_page
from dashboard.changes import apply_once, differences, predicted
from dashboard.forms import PolicyForm, add_refusal
from dashboard.live.audience import OPERATORS
from dashboard.selectors import live_facts
from gateway.core.priority import PriorityClass
from tenants.errors import NotFound, TenancyError
from tenants.models import AuditEntry, Organization
from tenants.selectors.audit import entries
from tenants.selectors.organizations import organization
from tenants.services.undo import undo_together

EARLIER_CHANGES = 8


@operator_page
def policy(request: HttpRequest, viewer: Viewer, slug: str) -> HttpResponse:
    row = _organization(slug)
    if request.method != "POST":
        return _form(request, viewer, row, PolicyForm(initial=_current(row)))
    form = PolicyForm(request.POST)
    if not form.is_valid():
        return _form(request, viewer, row, form, status=422)
    wish = form.wish()
    if request.POST.get("step") == "change":
        return _form(request, viewer, row, form)
    applies = request.POST.get("step") == "apply"
    if applies:
        try:
            made = apply_once(slug=slug, wish=wish, actor=actor_of(request))
        except TenancyError as error:
            return _refused(request, viewer, slug, form, error)
        if made:
            return _result(request, viewer, _organization(slug), made)
    changes = differences(row, wish)
    if applies or not changes:
        form.add_error(None, "Nothing would change: this is what is set now.")
        return _form(request, viewer, row, form, status=422)
    facts = live_facts(request, OPERATORS)
    context = {"differences": changes, "predicted": predicted(row, wish, facts), "form": form}
    return _show(request, viewer, row, "review", context)


@require_POST
@operator_page
def undo_change(request: HttpRequest, viewer: Viewer, entry_id: int) -> HttpResponse:
    """With the entry, those of the same change that the form names: one step back for it all."""
    also = [int(text) for text in request.POST.getlist("also")[:1] if text.isdecimal()]
    try:
        made = undo_together(entry_ids=(entry_id, *also), actor=actor_of(request))
    except NotFound as error:
        raise Http404(error.message) from error
    except TenancyError as error:
        context = {"viewer": viewer, "here": "audit", "error": error, "part": "refused"}
        return render(request, _template(request), context, status=error.status)
    return _result(request, viewer, _organization(made[0].tenant), made)


def _organization(slug: str) -> Organization:
    try:
        return organization(slug)
    except NotFound as error:
        raise Http404(error.message) from error


def _current(row: Organization) -> dict[str, object]:
    klass = PriorityClass(row.highest_class).label
    return {"weight": f"{row.weight:g}", "highest_class": klass, "version": row.version}


def _form(
    request: HttpRequest, viewer: Viewer, row: Organization, form: PolicyForm, status: int = 200
) -> HttpResponse:
    return _show(request, viewer, row, "form", {"form": form}, status)


def _refused(
    request: HttpRequest, viewer: Viewer, slug: str, form: PolicyForm, error: TenancyError
) -> HttpResponse:
    """The form again, with what is set now: after a Stale the operator decides anew."""
    row = _organization(slug)
    again = PolicyForm({**dict(form.data.items()), "version": row.version})
    again.is_valid()
    add_refusal(again, error)
    return _show(request, viewer, row, "form", {"form": again}, error.status)


def _result(
    request: HttpRequest, viewer: Viewer, row: Organization, made: tuple[AuditEntry, ...]
) -> HttpResponse:
    context = {"made": made, "version": made[-1].config_version, "undone": made[0].undoes}
    return _show(request, viewer, row, "result", context)


def _show(
    request: HttpRequest,
    viewer: Viewer,
    row: Organization,
    part: str,
    context: dict[str, object],
    status: int = 200,
) -> HttpResponse:
    common = {
        "viewer": viewer,
        "here": "home",
        "organization": row,
        "part": part,
        "audit": entries(tenant=row.slug)[:EARLIER_CHANGES],
    }
    return render(request, _template(request), common | context, status=status)


def _template(request: HttpRequest) -> str:
    name = "policy_part" if request.headers.get("HX-Request") else "policy"
    return f"dashboard/{name}.html"
