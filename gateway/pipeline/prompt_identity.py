"""Is this the call that was refused before? Does it continue a conversation?

Two numbers that say only "the same", within one process: Python's keyed hash over the prompt. They
are never stored or shown, so they tell nothing of the prompt. 0 = unknown.

Messages of plain text are hashed as they are: a text remembers its hash, so the second number costs
next to nothing. Others are encoded first.

A conversation is known by the caller's own hint (``prompt_cache_key``), else by how it begins: the
messages up to the first one of the user.
"""

from __future__ import annotations

from typing import Any

import msgspec

from gateway.wire.dialect import ParsedBody

_PROMPTS = ("messages", "prompt", "input")


def prompt_hash(body: ParsedBody) -> int:
    for name in _PROMPTS:
        if name in body.body:
            return _hashed(body.body[name])
    return 0


def conversation_of(body: ParsedBody) -> int:
    hint = body.body.get("prompt_cache_key")
    if isinstance(hint, str) and hint:
        return _hashed(hint)
    messages = body.body.get("messages", body.body.get("input"))
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    return _hashed(_beginning(messages)) if isinstance(messages, list) and body.generates else 0


def _beginning(messages: list[Any]) -> list[Any]:
    for number, message in enumerate(messages, 1):
        if isinstance(message, dict) and message.get("role") == "user":
            return messages[:number]
    return messages


def _hashed(value: Any) -> int:
    if not value:
        return 0
    try:
        return hash(value if isinstance(value, str) else tuple(map(tuple, map(dict.items, value))))
    except (AttributeError, TypeError):  # more than texts
        return hash(msgspec.json.encode(value))
