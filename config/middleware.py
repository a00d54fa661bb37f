"""What every page has that no library gives: a header, an answer while the database is away, and
the control API's own words for what no operation of it answered.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import structlog
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse

from tenants.control.problems import problem_of_status

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


def api_problems(
    get_response: Callable[[HttpRequest], HttpResponse],
) -> Callable[[HttpRequest], HttpResponse]:
    """Outermost: under ``/api`` every refusal is JSON of one shape, also of what does not exist."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        is_json = response.get("Content-Type", "").startswith("application/json")
        if response.status_code < 400 or is_json or not is_api(request.path):
            return response
        plain = response.get("Content-Type", "").startswith("text/plain")
        words = response.content.decode().strip() if plain and response.status_code == 503 else ""
        response.content = json.dumps(problem_of_status(response.status_code, words))
        response["Content-Type"] = "application/json"
        response["Content-Length"] = str(len(response.content))
        return response

    return middleware


def is_api(path: str) -> bool:
    return path == "/api" or path.startswith("/api/")


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
