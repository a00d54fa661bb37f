"""Who calls the control API, and how are its refusals told?

A request with ``Authorization`` or ``x-api-key`` is judged by that key alone; its cookies are
ignored. Any other request is judged by its session, and needs a CSRF token to change something.
Bodies must be application/json. What services raise becomes an answer with the same words.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone
from ninja import Router
from ninja.errors import HttpError
from ninja.security import HttpBearer
from ninja.utils import check_csrf

from tenants import principals
from tenants.errors import TenancyError
from tenants.permissions import Principal

_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})


class SessionOrKey(HttpBearer):
    """Its result, the principal, is at ``request.auth``."""

    def __call__(self, request: HttpRequest) -> Principal | None:
        secret = _secret(request)
        return self._by_session(request) if secret is None else self.authenticate(request, secret)

    def authenticate(self, request: HttpRequest, token: str) -> Principal | None:
        pepper = settings.FAIRWAY_TENANTS.key_pepper
        try:
            return principals.of_key(
                token, pepper=pepper, address=address_of(request), now=timezone.now()
            )
        except TenancyError as error:
            raise HttpError(error.status, str(error)) from error

    def _by_session(self, request: HttpRequest) -> Principal | None:
        user = request.user
        if not user.is_authenticated or user.pk is None:
            return None
        if check_csrf(request) is not None:
            raise HttpError(403, "The CSRF token is missing or wrong. Reload the page.")
        return principals.of_account(user.pk, user.get_username(), address=address_of(request))


def new_router(tag: str) -> Router:
    """A router whose operations are authenticated and whose refusals are explained."""
    router = Router(auth=SessionOrKey(), tags=[tag])
    router.add_decorator(json_bodies_only, mode="view")
    router.add_decorator(explained, mode="operation")
    return router


def principal_of(request: HttpRequest) -> Principal:
    principal: object = getattr(request, "auth", None)
    assert isinstance(principal, Principal)
    return principal


def address_of(request: HttpRequest) -> str:
    """The peer's address; a proxy's headers count only where the server was told to trust it."""
    return str(request.META.get("REMOTE_ADDR", ""))


def json_bodies_only(
    operation: Callable[..., HttpResponse],
) -> Callable[..., HttpResponse]:
    @functools.wraps(operation)
    def run(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if request.method in _WITH_BODY and request.content_type != "application/json":
            return problem(415, "unsupported_type", "The body must be application/json.")
        return operation(request, *args, **kwargs)

    return run


def explained(operation: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(operation)
    def run(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        try:
            return operation(request, *args, **kwargs)
        except TenancyError as error:
            return problem(
                error.status, error.code, error.message, error.next_step, field=error.field
            )

    return run


def problem(
    status: int, code: str, detail: str, next_step: str = "", *, field: str | None = None
) -> JsonResponse:
    content = {"detail": detail, "code": code, "next_step": next_step, "field": field}
    return JsonResponse(content, status=status)


def _secret(request: HttpRequest) -> str | None:
    """The key that the request carries; empty for an Authorization of another scheme."""
    if authorization := request.headers.get("Authorization"):
        scheme, _, token = authorization.partition(" ")
        return token.strip() if scheme.lower() == "bearer" else ""
    return request.headers.get("x-api-key")
