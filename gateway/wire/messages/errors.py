"""How does an error look in the shape of the Messages API, before and after a stream has begun?

``{"type": "error", "error": {"type", "message", "details"}, "request_id"}``. The type follows from
the status, since that is how the public SDKs choose their exception; ``details.error_code`` is the
reason, ``details.param`` the field that is wrong.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from gateway.core.errors import CallError, UpstreamError
from gateway.core.reasons import Reason
from gateway.wire.errors import words_of_replica

_TYPES: Final = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}


def error_type(status: int) -> str:
    return _TYPES.get(status, "invalid_request_error" if 400 <= status < 499 else "api_error")


def error_body(error: CallError, request_id: str) -> bytes:
    details = {"error_code": str(error.reason)}
    message, param = error.message, error.param
    if isinstance(error, UpstreamError) and error.reason is Reason.UPSTREAM_REFUSED:
        words = words_of_replica(error.upstream_body or b"")
        message, param = words["message"], words.get("param")
    if param is not None:
        details["param"] = param
    told: dict[str, Any] = {
        "type": error_type(error.status),
        "message": message,
        "details": details,
    }
    return msgspec.json.encode({"type": "error", "error": told, "request_id": request_id})


def error_event(error: CallError, request_id: str) -> bytes:
    return b"event: error\ndata: " + error_body(error, request_id) + b"\n\n"
