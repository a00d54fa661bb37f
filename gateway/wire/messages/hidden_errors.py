"""Which failure does an error inside a 200 stand for?

The API names its errors by type; each has a status, and the failure is then what that status would
have been. Servers that write a number instead are understood too.
"""

from __future__ import annotations

from typing import Any, Final

from gateway.core.errors import UpstreamError
from gateway.replicas.upstream_errors import error_for_status
from gateway.wire.answers.events import Garbled, decode_json
from gateway.wire.answers.hidden_errors import status_in

STATUSES: Final = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}


def error_in(data: bytes) -> UpstreamError:
    """Never raises: what cannot be read is the replica's failure."""
    try:
        told = decode_json(data)
    except Garbled:
        told = None
    inner: Any = told.get("error", told) if isinstance(told, dict) else None
    kind = inner.get("type") if isinstance(inner, dict) else None
    status = STATUSES.get(kind) if isinstance(kind, str) else None
    return error_for_status(status or status_in(inner), data)
