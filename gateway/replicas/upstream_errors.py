"""What does a replica's failure mean for the call and for the replica? One table for statuses, one
for what the parser of HTTP and the operating system raise.

Texts of a replica are untrusted: no message here quotes them. The body of an error travels in
``upstream_body``: of a refusal (400, 404, 413, 422) the dialect may relay it, of the others an
excerpt is kept for operators.

Blame: 5xx and timeouts count against the replica; 4xx, 429 and 503 never do, nor does a file that
this process lacks.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Mapping
from enum import StrEnum

from httptools import HttpParserError, HttpParserUpgrade

from gateway.core.errors import ConnectionLost, ReplicaFull, ReplicaUnreachable, UpstreamError
from gateway.core.reasons import Reason

RELAYED = frozenset({400, 404, 413, 422})
FULL = frozenset({429, 503, 529})  # 529: overloaded, in the Messages API
FULL_HINT_S = (1.0, 2.0)  # shortest and longest time a full replica is spared


class Phase(StrEnum):
    CONNECT = "connect"  # nothing was sent
    HEADERS = "headers"  # from the first byte that is sent to the end of the response headers
    BODY = "body"


def error_for_status(
    status: int, body: bytes = b"", retry_after: str | None = None
) -> UpstreamError:
    """``status`` is not 2xx."""
    if status in RELAYED:
        return UpstreamError(
            Reason.UPSTREAM_REFUSED,
            status=status,
            retryable=False,
            blames_replica=False,
            upstream_body=body,
        )
    if status in FULL:
        return ReplicaFull(
            Reason.SHED,
            f"The replica is full (its status {status}).",
            blames_replica=False,
            retry_after_s=full_hint_s(retry_after),
            upstream_body=body,
        )
    return UpstreamError(
        Reason.UPSTREAM_ERROR,
        f"The replica answered with status {status}.",
        blames_replica=not 400 <= status < 500 and status != 501,
        upstream_body=body,
    )


def full_hint_s(retry_after: str | None) -> float:
    """Seconds to spare a full replica. A date or nonsense in the header counts as absent."""
    shortest, longest = FULL_HINT_S
    if retry_after is None or not retry_after.strip().isdecimal():
        return shortest
    return min(max(float(retry_after), shortest), longest)


def error_for_plain_answer(content_type: str, body: bytes) -> UpstreamError:
    """A 200 in another media type than was asked for, which is an event stream nearly always: a
    JSON error in disguise, an HTML page, anything."""
    code = _error_code(body) if content_type == "application/json" else None
    if code is not None:
        return error_for_status(code, body)
    message = "The replica's answer is not of the media type that was asked for."
    return UpstreamError(Reason.UPSTREAM_ERROR, message)


def error_for_encoding() -> UpstreamError:
    return UpstreamError(
        Reason.UPSTREAM_ERROR, "The replica's answer has a content encoding that was not accepted."
    )


def error_for_exception(error: BaseException, phase: Phase) -> UpstreamError:
    """Total over FOREIGN; an exception outside of it is a programming error and raises
    TypeError."""
    if lacks_a_file(error):
        return UpstreamError(Reason.GATEWAY_FULL, retryable=False, blames_replica=False)
    for foreign, (leaf, reason, message) in _TABLES[phase].items():
        if isinstance(error, foreign):
            return leaf(reason, message)
    raise TypeError(f"no upstream error is defined for {type(error).__name__}")


def lacks_a_file(error: BaseException) -> bool:
    """This process may open no more: nothing is wrong with the replica."""
    return isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)


def _error_code(body: bytes) -> int | None:
    """The HTTP status inside ``{"error": {"code": ...}}``; 500 when there is an error without
    one."""
    try:
        answer = json.loads(body)
    except ValueError:
        return None
    error = answer.get("error") if isinstance(answer, Mapping) else None
    if not error:
        return None
    code = error.get("code") if isinstance(error, Mapping) else None
    return code if isinstance(code, int) and 400 <= code < 600 else 500


_Row = tuple[type[UpstreamError], Reason, str]
_UNREACHABLE: _Row = (
    ReplicaUnreachable,
    Reason.UPSTREAM_ERROR,
    "No connection to the replica could be made.",
)
_LOST: _Row = (
    ConnectionLost,
    Reason.UPSTREAM_ERROR,
    "The replica closed the connection before it answered.",
)
_CUT: _Row = (
    ConnectionLost,
    Reason.UPSTREAM_INCOMPLETE,
    "The replica closed the connection before its answer was complete.",
)
_GARBLED: _Row = (UpstreamError, Reason.UPSTREAM_ERROR, "The replica's answer is not valid HTTP.")
_LATE: _Row = (UpstreamError, Reason.UPSTREAM_TIMEOUT, "The replica did not answer in time.")
_STALLED: _Row = (UpstreamError, Reason.STREAM_STALLED, "The replica stopped sending.")

# The first row that matches decides, so narrower types stand above wider ones. OSError is also what
# TimeoutError, ssl.SSLError and socket.gaierror are.
_HEADERS: dict[type[BaseException], _Row] = {
    TimeoutError: _LATE,
    ConnectionRefusedError: _UNREACHABLE,
    HttpParserError: _GARBLED,
    HttpParserUpgrade: _GARBLED,
    OSError: _LOST,
    ValueError: _GARBLED,
}
_BODY: dict[type[BaseException], _Row] = {
    TimeoutError: _STALLED,
    HttpParserError: _CUT,
    HttpParserUpgrade: _CUT,
    OSError: _CUT,
    ValueError: _CUT,
}
FOREIGN: tuple[type[BaseException], ...] = (
    HttpParserError,
    HttpParserUpgrade,
    OSError,
    ValueError,
)
_TABLES: dict[Phase, dict[type[BaseException], _Row]] = {
    Phase.CONNECT: dict.fromkeys(FOREIGN, _UNREACHABLE),
    Phase.HEADERS: _HEADERS,
    Phase.BODY: _BODY,
}
