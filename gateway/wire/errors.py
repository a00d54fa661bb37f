"""How does an error look in the shape of the OpenAI API, before and after a stream has begun?

``{"error": {"message", "type", "param", "code"}}``; ``code`` is the reason. Texts of replicas are
untrusted: only a refusal of the request itself (400, 404, 413, 422) tells the replica's words, and
only when they are a plain sentence in a JSON error, without markup, keys or paths.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from gateway.core.errors import CallError, UpstreamError
from gateway.core.reasons import REASONS, Reason

_TYPES: Final = {
    Reason.TOKENS_PER_MINUTE: "tokens",
    Reason.DAILY_BUDGET: "tokens",
    Reason.MONTHLY_BUDGET: "tokens",
    Reason.ENQUEUED_TOKENS: "tokens",
    Reason.REQUESTS_PER_MINUTE: "requests",
    Reason.CONCURRENCY: "requests",
    Reason.CREDIT_EXHAUSTED: "insufficient_quota",
}
_MAX_MESSAGE_CHARS: Final = 1_000
_CODE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_PARAM: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.\[\]]{0,127}")
_UNSAFE: Final = re.compile(
    r"<[a-zA-Z/!?]|Traceback|https?://|/\w+/\w|[A-Za-z]:\\|\b(?:sk|hf|fw)[-_]\w{6}"
    r"|Bearer\s|[\x00-\x08\x0b-\x1f\x7f]"
)
_READ_BYTES: Final = 4_096
_EXCERPT_CHARS: Final = 300
_NOT_SHOWN: Final = re.compile(
    r"[^\S ]|[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]"
)
_KEY: Final = re.compile(r"\b(?:sk|hf|fw)[-_]\w[\w-]*|(?<=Bearer )\S+")
_QUOTED: Final = re.compile(r"(?<=')[^']{41,}|(?<=\")[^\"]{41,}|(?<=`)[^`]{41,}")
_CODES_OF_REPLICAS: Final = {"exceed_context_size_error": "context_length_exceeded"}


def error_body(error: CallError) -> bytes:
    return msgspec.json.encode({"error": error_object(error)})


def error_event(error: CallError) -> bytes:
    """A data line without an event name: every client reads it, and named events break some."""
    return b"data: " + error_body(error) + b"\n\n"


def error_type(error: CallError) -> str:
    if error.status >= 500:
        return "server_error"
    if error.status == 429:
        return _TYPES.get(error.reason, "rate_limit_error")
    return "invalid_request_error"


def error_object(error: CallError) -> dict[str, Any]:
    shown = {
        "message": error.message,
        "type": error_type(error),
        "param": error.param,
        "code": str(error.reason),
    }
    if isinstance(error, UpstreamError) and error.reason is Reason.UPSTREAM_REFUSED:
        shown.update(words_of_replica(error.upstream_body or b""))
    return shown


def words_of_replica(body: bytes) -> dict[str, str]:
    """What of a replica's refusal may be told: nothing unless its message is a plain sentence."""
    told = _told_error(body)
    message, param = told.get("message"), told.get("param")
    if not isinstance(message, str) or not message.strip() or _UNSAFE.search(message):
        return {"message": REASONS[Reason.UPSTREAM_REFUSED].meaning}
    words = {"message": message[:_MAX_MESSAGE_CHARS]}
    if isinstance(param, str) and _PARAM.fullmatch(param):
        words["param"] = param
    code = _CODES_OF_REPLICAS.get(str(told.get("type")), told.get("code"))
    if isinstance(code, str) and _CODE.fullmatch(code):
        words["code"] = code
    return words


def excerpt_for_operators(body: bytes) -> str:
    """One short line of what a replica said, without keys and without what it may have quoted from
    the request."""
    said = _told_error(body)
    text = said.get("message", said.get("detail"))
    if not isinstance(text, str):
        text = "" if said else body[:_READ_BYTES].decode(errors="replace")
    line = " ".join(_NOT_SHOWN.sub(" ", text[:_READ_BYTES]).split())
    return _QUOTED.sub("…", _KEY.sub("***", line))[:_EXCERPT_CHARS]


def _told_error(body: bytes) -> dict[str, Any]:
    try:
        answer = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return {}
    if not isinstance(answer, dict):
        return {}
    error = answer.get("error", answer)
    return error if isinstance(error, dict) else {"message": error}
