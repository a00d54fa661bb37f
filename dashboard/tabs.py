"""For which organization was the page rendered that a request comes from?

Who belongs to several may have switched in another tab since. Every form names the organization of
its page (``csrf_token`` of ``templatetags/carried.py`` adds it), every request of htmx does in a
header (``page.html``), the socket in its address. It grants nothing: what a request may do comes
from the session; where the two differ, nothing is done and the answer is 409.
"""

from __future__ import annotations

from django.http import HttpRequest

FIELD = "organization"
HEADER = "Fairway-Organization"
SAFE_METHODS = {"GET", "HEAD", "OPTIONS"}


def named_by(request: HttpRequest) -> set[str]:
    return {request.headers.get(HEADER, ""), request.POST.get(FIELD, "")} - {""}


def is_of_another(request: HttpRequest, tenant: str, *, has_others: bool) -> bool:
    """A whole page read anew is never: it has the heading of what it shows. Anything else of who
    has several organizations has to name one."""
    named = named_by(request)
    if named or not has_others:
        return bool(named - {tenant})
    return request.method not in SAFE_METHODS or "HX-Request" in request.headers
