"""Is this event of a 200 really an error? Servers that have begun to stream cannot change the
status.

Forms seen: ``{"error": {...}}``, ``{"object": "error", ...}`` and a bare ``{"message", "code" |
"type"}`` without choices. A status inside it is treated as if the replica had answered with it.
"""

from __future__ import annotations

from typing import Any, Final

from gateway.core.errors import UpstreamError
from gateway.core.reasons import Reason
from gateway.replicas.upstream_errors import error_for_status
from gateway.wire.answers.chunks import Chunk
from gateway.wire.answers.events import decode_json, says
from gateway.wire.dialect import Frame

_UNKNOWN_STATUS: Final = 500
_NOT_SSE: Final = (b"<", b"{", b"[")


def error_in(chunk: Chunk, data: bytes) -> UpstreamError | None:
    """``data`` is the JSON object that ``chunk`` was decoded from. Raises Garbled."""
    if says(chunk.error):
        return error_for_status(status_in(decode_json(chunk.error)), data)
    if chunk.object != "error" and chunk.choices is not None:
        return None
    event = decode_json(data)
    if chunk.object == "error" or _is_bare_error(event):
        return error_for_status(status_in(event), data)
    return None


def error_without_data(frame: Frame) -> UpstreamError | None:
    """Of a frame that has no data, or whose data tells nothing."""
    if frame.event == "error":
        return UpstreamError(Reason.UPSTREAM_ERROR, "The replica sent an error.")
    if frame.data is None and not frame.is_comment and frame.raw.lstrip().startswith(_NOT_SSE):
        message = "The replica's answer is not an event stream."
        return UpstreamError(Reason.UPSTREAM_ERROR, message)
    return None


def _is_bare_error(event: dict[str, Any]) -> bool:
    names = event.keys()
    return "choices" not in names and "message" in names and not names.isdisjoint({"code", "type"})


def status_in(error: Any) -> int:
    """The HTTP status that an error object names, else 500."""
    code = error.get("code", error.get("status")) if isinstance(error, dict) else None
    text = str(code)
    status = int(text) if text.isdecimal() and len(text) == 3 else _UNKNOWN_STATUS
    return status if 400 <= status < 600 else _UNKNOWN_STATUS
