"""Who is looking, and what may they see?

An operator sees the fleet. Anybody else sees one organization that they are a member of: the one
chosen in the session, else the first; what comes from a page of another one of theirs is answered
with 409 (``dashboard.tabs``), by ``page`` and so for every page. Who is neither gets a page that
says who can grant it. What belongs to another tenant is answered like what does not exist.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from importlib import import_module
from typing import Any

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY, get_user_model
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.crypto import constant_time_compare
from django.views.decorators.cache import never_cache

from dashboard import tabs
from dashboard.live.audience import OPERATORS, Audience, MembersOf
from tenants.actors import Actor
from tenants.models import Role
from tenants.selectors.organizations import organizations
from tenants.selectors.people import is_operator, roles_of

CHOSEN = "organization"  # in the session


@dataclass(frozen=True, slots=True)
class Viewer:
    """``tenant``: of a member who is no operator. ``others``: slug and name to switch to."""

    username: str
    is_operator: bool
    tenant: str | None = None
    tenant_name: str = ""
    role: str = ""
    others: tuple[tuple[str, str], ...] = ()

    @property
    def audience(self) -> Audience | None:
        if self.is_operator:
            return OPERATORS
        return MembersOf(self.tenant) if self.tenant else None

    @property
    def may_write(self) -> bool:
        """A viewer only looks."""
        return self.role in {Role.OWNER, Role.MEMBER}

    @property
    def is_owner(self) -> bool:
        return self.role == Role.OWNER


View = Callable[..., HttpResponse]


def viewer_of(user: Any, chosen: str | None) -> Viewer:
    """``chosen`` is the slug that the session asks for; ignored where the user is no member."""
    if is_operator(user.pk):
        return Viewer(user.get_username(), is_operator=True)
    roles = roles_of(user.pk)
    if not roles:
        return Viewer(user.get_username(), is_operator=False)
    names = dict(organizations(of_user=user.pk).values_list("slug", "name"))
    slug = chosen if chosen in roles else min(roles)
    others = tuple((other, name) for other, name in names.items() if other != slug)
    return Viewer(user.get_username(), False, slug, names.get(slug, slug), roles[slug], others)


def page(view: View) -> View:
    """For signed-in people with a role. The view gets ``viewer`` after ``request``."""

    @wraps(view)
    def guarded(request: HttpRequest, viewer: Viewer, *args: Any, **kwargs: Any) -> HttpResponse:
        tenant = viewer.tenant
        if tenant and tabs.is_of_another(request, tenant, has_others=bool(viewer.others)):
            return _switched(request, viewer)
        return view(request, viewer, *args, **kwargs)

    return page_of_any_tab(guarded)


def _switched(request: HttpRequest, viewer: Viewer) -> HttpResponse:
    """Names the organization that was left only where the viewer is its member."""
    left = [(slug, name) for slug, name in viewer.others if slug in tabs.named_by(request)]
    slug, name = left[0] if left else ("", "")
    part = "switched_part" if request.headers.get("HX-Request") else "switched"
    context = {"viewer": viewer, "left": slug, "left_name": name}
    return render(request, f"dashboard/{part}.html", context, status=409)


def page_of_any_tab(view: View) -> View:
    """As ``page``, and whatever organization the request's page is of: for the switch itself."""

    @never_cache
    @login_required
    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        viewer = viewer_of(request.user, request.session.get(CHOSEN))
        if viewer.audience is None:
            context = {"viewer": viewer}
            return render(request, "dashboard/no_organization.html", context, status=403)
        return view(request, viewer, *args, **kwargs)

    return guarded


def operator_page(view: View) -> View:
    @wraps(view)
    def guarded(request: HttpRequest, viewer: Viewer, *args: Any, **kwargs: Any) -> HttpResponse:
        if not viewer.is_operator:
            raise PermissionDenied(
                "Only operators may open this page. An operator can make you one."
            )
        return view(request, viewer, *args, **kwargs)

    return page(guarded)


def tenant_page(view: View) -> View:
    """For members; an operator who is no member has no tenant of their own here."""

    @wraps(view)
    def guarded(request: HttpRequest, viewer: Viewer, *args: Any, **kwargs: Any) -> HttpResponse:
        if viewer.tenant is None:
            raise PermissionDenied(
                "This page belongs to the members of an organization. Operators see the fleet."
            )
        return view(request, viewer, *args, **kwargs)

    return page(guarded)


def actor_of(request: HttpRequest) -> Actor:
    return Actor.user(request.user.get_username(), request.META.get("REMOTE_ADDR", ""))


def audience_of_session(session_key: str | None) -> Audience | None:
    """What a socket may see now; None once the session ended or the role was taken. Reads the
    database afresh, nothing is remembered between two calls."""
    if not session_key:
        return None
    store = import_module(settings.SESSION_ENGINE).SessionStore(session_key)
    user = _user_of(store)
    return viewer_of(user, store.get(CHOSEN)).audience if user else None


def _user_of(session: Any) -> User | None:
    """As ``django.contrib.auth.get_user``, without a request."""
    if session.get(BACKEND_SESSION_KEY) not in settings.AUTHENTICATION_BACKENDS:
        return None
    user = get_user_model().objects.filter(pk=session.get(SESSION_KEY), is_active=True).first()
    if user is None:
        return None
    known = session.get(HASH_SESSION_KEY, "")
    return user if constant_time_compare(known, user.get_session_auth_hash()) else None
