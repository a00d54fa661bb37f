"""How does the control API say that nothing was done? Always in one shape, whoever refuses.

``problem`` is that shape. ``tell_problems`` makes an API tell in it what its library refuses; what
never reaches an operation is told in it too, with the code that belongs to its status.
"""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from ninja import NinjaAPI
from ninja.errors import HttpError, ValidationError

CODES = {
    400: "invalid_request",
    401: "invalid_api_key",
    403: "not_permitted",
    404: "not_found",
    405: "method_not_allowed",
    408: "body_timeout",
    413: "body_too_large",
    415: "unsupported_type",
    422: "invalid_value",
    429: "too_many_failures",
    503: "unavailable",
}
WORDS = {
    404: ("There is nothing at this address.", "See /api/v1/docs for what there is."),
    405: ("The address does not accept this HTTP method.", "See /api/v1/docs for those it does."),
    500: ("A fault inside the server.", "Try again; tell an operator if it stays."),
}
_UNTOLD = ("The request was refused.", "")


def problem_body(
    status: int,
    detail: str,
    *,
    code: str | None = None,
    next_step: str = "",
    field: str | None = None,
) -> dict[str, str | None]:
    """Without ``code``: the one of the status."""
    named = code or CODES.get(status) or ("internal" if status >= 500 else "refused")
    return {"detail": detail, "code": named, "next_step": next_step, "field": field}


def problem(
    status: int, code: str, detail: str, next_step: str = "", *, field: str | None = None
) -> JsonResponse:
    content = problem_body(status, detail, code=code, next_step=next_step, field=field)
    return JsonResponse(content, status=status)


def problem_of_status(status: int, detail: str = "") -> dict[str, str | None]:
    """For an answer of which only the status is known, and perhaps a sentence."""
    words, next_step = WORDS.get(status, _UNTOLD)
    return problem_body(status, detail or words, next_step=next_step)


def tell_problems(api: NinjaAPI) -> None:
    def refused(request: HttpRequest, error: Any) -> HttpResponse:
        content = problem_body(error.status_code, str(error))
        return JsonResponse(content, status=error.status_code)

    def absent(request: HttpRequest, error: Any) -> HttpResponse:
        return JsonResponse(problem_of_status(404), status=404)

    api.add_exception_handler(HttpError, refused)
    api.add_exception_handler(Http404, absent)
    api.add_exception_handler(ValidationError, _invalid)


def _invalid(request: HttpRequest, error: Any) -> HttpResponse:
    """Names every field at fault, the first as ``field``; never repeats a value."""
    mistakes = [(_field(one), str(one.get("msg", "invalid"))) for one in error.errors]
    told = [f"{field}: {words}" if field else words for field, words in mistakes]
    return problem(422, CODES[422], f"{'; '.join(told)}.", field=mistakes[0][0] or None)


def _field(mistake: dict[str, Any]) -> str:
    """Without the place of the request and the name of the operation's argument."""
    place, *path = (str(part) for part in mistake.get("loc", ()))
    return ".".join(path[1:] if place == "body" else path)
