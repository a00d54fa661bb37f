"""What every page has that no library gives: a header, and an answer while the database is away."""

from __future__ import annotations

from collections.abc import Callable

import structlog
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse

log = structlog.get_logger(__name__)
_POLICY = "camera=(), microphone=(), geolocation=(), payment=(), usb=()"


def permissions_policy(
    get_response: Callable[[HttpRequest], HttpResponse],
) -> Callable[[HttpRequest], HttpResponse]:
    """A page asks for no device."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        response.headers.setdefault("Permissions-Policy", _POLICY)
        return response

    return middleware


class DatabaseAway:
    """A page that cannot reach the database says 503: the mistake is not the caller's, nor ours."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self._get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        if not isinstance(error, OperationalError | InterfaceError):
            return None
        log.error("database_away", path=request.path, error=type(error).__name__)
        text = "The database does not answer. Try again in a moment.\n"
        headers = {"Retry-After": "2"}
        return HttpResponse(text, status=503, content_type="text/plain", headers=headers)
