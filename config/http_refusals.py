"""What does the server itself say to a request that no application sees? One whole HTTP answer, in
the error shape of the API that the path belongs to; the connection ends with it.

Only the parser and the bounds of ``http_protocol`` refuse here. Before a path is known the answer
has OpenAI's shape too: who speaks broken HTTP to this port is most likely a caller of ``/v1``.
"""

from __future__ import annotations

import http
import random
from typing import Final

from gateway.core.errors import CallError, Rejected
from gateway.core.reasons import Reason
from gateway.pipeline.call import new_call_id
from gateway.wire import DIALECTS
from gateway.wire.api_styles import ANTHROPIC, style_of
from gateway.wire.retry_headers import error_headers

_RNG: Final = random.SystemRandom()
_PLAIN = DIALECTS["/v1/chat/completions"]
_MESSAGES = DIALECTS["/v1/messages"]
_OWN_PHRASES: Final = {529: "Overloaded"}


def unparseable(what: str) -> CallError:
    return Rejected(Reason.INVALID_REQUEST, f"The request is not valid HTTP: {what}.", status=400)


def head_too_large(most_headers: int, most_bytes: int) -> CallError:
    words = f"The head of a request has at most {most_headers} headers and {most_bytes:,} bytes."
    return Rejected(Reason.INVALID_REQUEST, words, status=431)


def head_too_late(timeout_s: float) -> CallError:
    words = f"The head of the request was not complete within {timeout_s:g} s."
    return Rejected(Reason.BODY_TIMEOUT, words)


def no_place() -> CallError:
    words = "The gateway holds as many connections as it can."
    return Rejected(Reason.GATEWAY_FULL, words, retry_after_s=1.0)


def rendered(error: CallError, target: bytes) -> bytes:
    """``target``: of the request line, as far as it came."""
    path = target.partition(b"?")[0].decode("latin-1")
    style = style_of(path, {})
    call_id = new_call_id()
    body = (_MESSAGES if style is ANTHROPIC else _PLAIN).error_body(error, call_id)
    status = style.status(error)
    headers = {
        "content-type": "application/json",
        "content-length": str(len(body)),
        "connection": "close",
        style.request_id_header: call_id,
        **error_headers(error, _RNG),
    }
    phrase = _OWN_PHRASES.get(status) or http.HTTPStatus(status).phrase
    lines = [
        f"HTTP/1.1 {status} {phrase}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join(lines).encode("ascii") + b"\r\n\r\n" + body
