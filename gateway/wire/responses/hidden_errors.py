"""Which failure does an event of a 200 tell? An ``error`` event, flat as the API has it or with an
object inside, and the error of a response that has failed.

The API's own codes say what an HTTP status would have said; so does a status in their place.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from gateway.core.errors import UpstreamError
from gateway.replicas.upstream_errors import error_for_status
from gateway.wire.answers.events import decode_json
from gateway.wire.answers.hidden_errors import status_in

_STATUSES: Final = {
    "server_error": 500,
    "rate_limit_exceeded": 429,
    "server_is_overloaded": 503,
    "slow_down": 503,
    "context_length_exceeded": 400,
    "bio_policy": 400,
}
_OF_THE_REQUEST: Final = ("invalid_", "image_", "unsupported_", "empty_image", "failed_to_download")


def error_of_event(data: bytes) -> UpstreamError:
    """``data`` is a JSON object that is an error. Raises Garbled."""
    event = decode_json(data)
    error = event.get("error")
    return error_for_status(_status(error if error else event), data)


def error_of_response(error: msgspec.Raw) -> UpstreamError:
    """``error`` is that of a response, possibly absent. Raises Garbled."""
    told = decode_json(error) if bytes(error) else None
    return error_for_status(_status(told), msgspec.json.encode({"error": told}))


def _status(error: Any) -> int:
    code = error.get("code") if isinstance(error, dict) else None
    if isinstance(code, str):
        if code in _STATUSES:
            return _STATUSES[code]
        if code.startswith(_OF_THE_REQUEST):
            return 400
    return status_in(error)
