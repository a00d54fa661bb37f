"""What does the replica get instead of the caller's body?

The validated body, serialised anew (never the caller's bytes), with what the gateway decides
written over it: a stream with usage always, the replica's own model name, the tenant's cache salt,
the priority, and an output cap where the caller gave none. Everything else stays as it came.
"""

from __future__ import annotations

from typing import Any

import msgspec

from gateway.wire.dialect import ParsedBody, Rewrite


def upstream_body(parsed: ParsedBody, rewrite: Rewrite) -> bytes:
    body = {**parsed.body, **rewrite.extras, "model": rewrite.upstream_model, "stream": True}
    body["stream_options"] = {
        **(parsed.body.get("stream_options") or {}),
        **(rewrite.extras.get("stream_options") or {}),
        "include_usage": True,
    }
    put(body, "cache_salt", rewrite.cache_salt)
    put(body, "priority", rewrite.priority)
    if rewrite.max_tokens_if_absent is not None and body.get("max_tokens") is None:
        body["max_tokens"] = parsed.max_output_tokens or rewrite.max_tokens_if_absent
    return msgspec.json.encode(body)


def put(body: dict[str, Any], name: str, value: str | int | None) -> None:
    """None takes the caller's own value away: it is the gateway's field."""
    if value is None:
        body.pop(name, None)
    else:
        body[name] = value
