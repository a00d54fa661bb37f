"""A tenant's API keys: create (the secret is shown once), disable, enable, rotate.

A key that may manage the organization is an owner's business, as in the control API.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from django.conf import settings
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST

from dashboard.access import Viewer, actor_of, tenant_page
from dashboard.forms import KeyForm, add_refusal
from dashboard.selectors import a_model_name
from gateway.core.priority import PriorityClass
from tenants.errors import NotFound, TenancyError
from tenants.models import AuditEntry
from tenants.models.keys import Scope
from tenants.permissions import Action, require
from tenants.principals import of_account
from tenants.selectors.keys import key as key_row
from tenants.selectors.keys import keys_of
from tenants.selectors.organizations import organization
from tenants.services import keys as services
from tenants.services.keys import IssuedKey

START = {"scopes": [Scope.INFERENCE, Scope.BATCH], "expires": ""}


@tenant_page
def keys(request: HttpRequest, viewer: Viewer) -> HttpResponse:
    assert viewer.tenant is not None
    if request.method != "POST":
        highest = PriorityClass(organization(viewer.tenant).highest_class).label
        return _list(request, viewer, KeyForm(initial=START | {"highest_class": highest}))
    _require_writer(viewer)
    form = KeyForm(request.POST)
    if form.is_valid():
        terms = form.terms()
        try:
            _require_for_scopes(request, viewer, terms.scopes)
            issued = services.create(slug=viewer.tenant, terms=terms, actor=actor_of(request))
        except TenancyError as error:
            add_refusal(form, error)
        else:
            return _issued(request, viewer, issued)
    return _list(request, viewer, form, status=422)


@require_POST
@tenant_page
def rotate(request: HttpRequest, viewer: Viewer, key_id: str) -> HttpResponse:
    """The old key stays valid for the grace that the installation sets."""
    _require_writer(viewer)
    assert viewer.tenant is not None
    try:
        _require_for_key(request, viewer, key_id)
        issued = services.rotate(slug=viewer.tenant, key_id=key_id, actor=actor_of(request))
    except NotFound as error:
        raise Http404(error.message) from error
    except TenancyError as error:
        messages.error(request, str(error))
        return redirect("dashboard:keys")
    return _issued(request, viewer, issued)


@require_POST
@tenant_page
def disable(request: HttpRequest, viewer: Viewer, key_id: str) -> HttpResponse:
    return _switch(request, viewer, key_id, services.disable, "is disabled; its calls get 401")


@require_POST
@tenant_page
def enable(request: HttpRequest, viewer: Viewer, key_id: str) -> HttpResponse:
    return _switch(request, viewer, key_id, services.enable, "is enabled")


def _switch(
    request: HttpRequest,
    viewer: Viewer,
    key_id: str,
    service: Callable[..., AuditEntry],
    done: str,
) -> HttpResponse:
    _require_writer(viewer)
    try:
        _require_for_key(request, viewer, key_id)
        service(slug=viewer.tenant, key_id=key_id, actor=actor_of(request))
    except NotFound as error:
        raise Http404(error.message) from error
    except TenancyError as error:
        messages.error(request, str(error))
    else:
        messages.success(request, f"Key {key_id} {done} within a second.")
    return redirect("dashboard:keys")


def _require_writer(viewer: Viewer) -> None:
    if not viewer.may_write:
        raise PermissionDenied(
            "Viewers only look. An owner of the organization can make you a member."
        )


def _require_for_key(request: HttpRequest, viewer: Viewer, key_id: str) -> None:
    assert viewer.tenant is not None
    _require_for_scopes(request, viewer, key_row(viewer.tenant, key_id).scopes)


def _require_for_scopes(request: HttpRequest, viewer: Viewer, scopes: Collection[str]) -> None:
    """Raises NotAllowed."""
    assert viewer.tenant is not None
    assert request.user.pk is not None
    principal = of_account(request.user.pk, viewer.username)
    manages = Scope.MANAGE in scopes
    action = Action.MANAGE_MANAGEMENT_KEYS if manages else Action.MANAGE_KEYS
    require(principal, action, viewer.tenant)


def _list(request: HttpRequest, viewer: Viewer, form: KeyForm, status: int = 200) -> HttpResponse:
    assert viewer.tenant is not None
    context = {
        "viewer": viewer,
        "here": "keys",
        "form": form,
        "keys": keys_of(viewer.tenant),
        "now": timezone.now(),
        "grace_s": settings.FAIRWAY_TENANTS.rotation_grace_s,
    }
    return render(request, "dashboard/keys.html", context, status=status)


def _issued(request: HttpRequest, viewer: Viewer, issued: IssuedKey) -> HttpResponse:
    context = {
        "viewer": viewer,
        "here": "keys",
        "issued": issued,
        "base_url": request.build_absolute_uri("/v1"),
        "model": a_model_name() or "MODEL",
    }
    return render(request, "dashboard/key_issued.html", context, status=201)
