"""Who calls the control API, and how are its refusals told?

A request with ``Authorization`` or ``x-api-key`` is judged by that key alone; its cookies are
ignored; too many wrong keys from one address are answered with 429. Any other request is judged by
its session, and needs a CSRF token to change something. Bodies must be application/json. What
services raise becomes an answer with the same words.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Router
from ninja.errors import HttpError
from ninja.security import HttpBearer
from ninja.utils import check_csrf

from gateway.core.bad_keys import BadKeys
from gateway.core.clock import Clock, SystemClock
from gateway.core.reasons import REASONS, Reason
from tenants import principals
from tenants.control.problems import problem
from tenants.errors import TenancyError
from tenants.permissions import Principal

WAIT = "retry_after_s"
NOT_SIGNED_IN = "Sign in, or send an API key of scope manage as Authorization: Bearer."
WRONG_KEY = REASONS[Reason.INVALID_API_KEY].meaning
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})


class SessionOrKey(HttpBearer):
    """Its result, the principal, is at ``request.auth``. A refusal for too many wrong keys leaves
    the seconds to wait at ``request.retry_after_s``."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self._bad_keys = BadKeys()

    def __call__(self, request: HttpRequest) -> Principal | None:
        secret = _secret(request)
        found = self._by_session(request) if secret is None else self.authenticate(request, secret)
        if found is None:
            raise HttpError(401, NOT_SIGNED_IN if secret is None else WRONG_KEY)
        return found

    def authenticate(self, request: HttpRequest, token: str) -> Principal | None:
        pepper, address = settings.FAIRWAY_TENANTS.key_pepper, address_of(request)
        try:
            found = principals.of_key(token, pepper=pepper, address=address, now=timezone.now())
        except TenancyError as error:
            raise HttpError(error.status, str(error)) from error
        if found is None and token:
            self._count_wrong_key(request, address)
        return found

    def _count_wrong_key(self, request: HttpRequest, address: str) -> None:
        wait_s = self._bad_keys.failed(address, self._clock.monotonic())
        if wait_s is not None:
            setattr(request, WAIT, wait_s)
            raise HttpError(429, REASONS[Reason.TOO_MANY_FAILURES].meaning)

    def _by_session(self, request: HttpRequest) -> Principal | None:
        user = request.user
        if not user.is_authenticated or user.pk is None:
            return None
        if check_csrf(request) is not None:
            raise HttpError(403, "The CSRF token is missing or wrong. Reload the page.")
        return principals.of_account(user.pk, user.get_username(), address=address_of(request))


AUTH = SessionOrKey(SystemClock())


def new_router(tag: str) -> Router:
    """A router whose operations are authenticated and whose refusals are explained."""
    router = Router(auth=AUTH, tags=[tag])
    router.add_decorator(saying_when, mode="view")
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


def saying_when(operation: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """A refusal that waiting mends says for how long, as the inference API does."""

    @functools.wraps(operation)
    def run(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        response = operation(request, *args, **kwargs)
        wait_s = getattr(request, WAIT, None)
        if wait_s is not None:
            response["retry-after"] = str(max(1, math.ceil(wait_s)))
            response["retry-after-ms"] = str(math.ceil(wait_s * 1000))
            response["x-fairway-reason"] = str(Reason.TOO_MANY_FAILURES)
        return response

    return run


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


def _secret(request: HttpRequest) -> str | None:
    """The key that the request carries; empty for an Authorization of another scheme."""
    if authorization := request.headers.get("Authorization"):
        scheme, _, token = authorization.partition(" ")
        return token.strip() if scheme.lower() == "bearer" else ""
    return request.headers.get("x-api-key")
