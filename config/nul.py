"""No request brings U+0000 to where rows are looked up: PostgreSQL has no text with it.

Judged once, before sessions and views: the path (404: nothing is named so), the query and the JSON
body of an API (400, naming the field), each in the shape that belongs to the address. A cookie with
it counts as not sent. Form fields are judged by their forms.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse

from config.asgi_types import Application, Receive, Scope, Send
from config.middleware import is_api
from gateway.core.errors import Rejected
from gateway.core.reasons import Reason
from tenants.control.problems import CODES, problem
from workers.refusals import refusal

NUL = "\0"
_ESCAPED = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")  # an odd number of backslashes
_SHOWN_NAME = re.compile(r"[a-z_][a-z0-9_]{0,63}", re.IGNORECASE | re.ASCII)


def refuse_nul(
    get_response: Callable[[HttpRequest], HttpResponse],
) -> Callable[[HttpRequest], HttpResponse]:
    def middleware(request: HttpRequest) -> HttpResponse:
        _forget_cookies(request)
        if NUL in request.path:
            return _refused(request, 404, "The address", "id")
        if (name := _name_in_query(request)) is not None:
            return _refused(request, 400, "The query", _shown(name))
        if (name := _name_in_body(request)) is not None:
            return _refused(request, 400, "The body", _shown(name))
        return get_response(request)

    return middleware


def _forget_cookies(request: HttpRequest) -> None:
    """A quoted value may spell it in octal digits."""
    for name in [name for name, value in request.COOKIES.items() if NUL in value]:
        del request.COOKIES[name]


def without_nul_cookies(application: Application) -> Application:
    """For websockets, between what reads cookies and what looks the session up."""

    async def run(scope: Scope, receive: Receive, send: Send) -> None:
        cookies = {name: text for name, text in scope["cookies"].items() if NUL not in text}
        await application({**scope, "cookies": cookies}, receive, send)

    return run


def _name_in_query(request: HttpRequest) -> str | None:
    """Of the first parameter with a NUL in its name or value."""
    if "%" not in request.META.get("QUERY_STRING", ""):
        return None
    for name, values in request.GET.lists():
        if any(NUL in text for text in (name, *map(str, values))):
            return name
    return None


def _name_in_body(request: HttpRequest) -> str | None:
    """Of the first outermost field with a NUL in it; empty where that cannot be told. None also for
    what is no JSON, which is refused by those who parse it."""
    if not (is_api(request.path) or _is_openai(request.path)) or not request.body:
        return None
    try:
        text = request.body.decode(json.detect_encoding(request.body), "surrogatepass")
        if not _ESCAPED.search(text):
            return None
        body = json.loads(text)
        fields = body.items() if isinstance(body, dict) else ()
        return next((name for name, value in fields if _holds_nul({name: value})), "")
    except (ValueError, RecursionError):
        return None


def _holds_nul(value: object) -> bool:
    return _ESCAPED.search(json.dumps(value)) is not None


def _shown(name: str) -> str | None:
    """Only what looks like the name of a field is repeated."""
    return name if _SHOWN_NAME.fullmatch(name) else None


def _is_openai(path: str) -> bool:
    return path.startswith("/v1/")


def _refused(request: HttpRequest, status: int, where: str, field: str | None) -> HttpResponse:
    words = f"{where} contains a NUL character (U+0000)."
    if is_api(request.path):
        named = None if status == 404 else field
        return problem(status, CODES[status], words, "Remove it.", field=named)
    if _is_openai(request.path):
        told = refusal(Rejected(Reason.INVALID_REQUEST, words, param=field, status=status))
        return HttpResponse(
            told.body, status=status, headers=told.headers, content_type="application/json"
        )
    raise Http404(words) if status == 404 else BadRequest(words)
