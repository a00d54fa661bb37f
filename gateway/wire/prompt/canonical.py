"""In which order does the replica read a request, as far as its cache can tell?

One text per request, of everything that a template may put before the model, in the order of the
pool's template: tools before the system message, or after it. Equal requests give equal texts, and
requests that begin alike give texts that begin alike; it is read by nobody else, hashed and
dropped. Every piece is framed by control characters with its role or name, so that the border
between two messages cannot be imitated by the text of one.

Media stand as a hash of what came. The output schema comes first: engines that write it into the
prompt do so in the system message.

``marked``: characters up to the last ``cache_control`` mark of the caller, 0 = no mark. The marks
themselves are not in the text: callers move them from turn to turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from xxhash import xxh3_64_hexdigest

_BEFORE: Final = ("response_format", "text", "structured_outputs", "documents")
_TOOLS: Final = ("tools", "functions")
_SYSTEM_ROLES: Final = frozenset({"system", "developer"})
_MARK: Final = "cache_control"
_TOLD: Final = {  # blocks that are text without a member of this name, and what of them is read
    "tool_use": ("name", "input"),
    "tool_result": ("content",),
    "thinking": ("thinking",),
    "redacted_thinking": ("data",),
}
_UNSEEN: Final = frozenset({"role", "id", "status", _MARK})  # of a message; no template shows them


@dataclass(slots=True)
class CanonicalPrompt:
    text: str
    marked: int = 0


def canonical_prompt(body: dict[str, Any], *, tools_first: bool = True) -> CanonicalPrompt:
    """Costs time in proportion to the text, at native speed."""
    pieces: list[str] = []
    marked = 0
    for piece, mark in _pieces(body, tools_first):
        pieces.append(piece)
        if mark:
            marked = sum(map(len, pieces))
    return CanonicalPrompt("".join(pieces), marked)


def _pieces(body: dict[str, Any], tools_first: bool) -> Iterator[tuple[str, bool]]:
    yield from _fields(body, _BEFORE)
    messages = body.get("messages", body.get("input"))
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    messages = messages if isinstance(messages, list) else []
    head = 0
    while head < len(messages) and _role(messages[head]) in _SYSTEM_ROLES:
        head += 1
    if tools_first:
        yield from _fields(body, _TOOLS)
    yield from _system(body)
    yield from _messages(messages[:head])
    if not tools_first:
        yield from _fields(body, _TOOLS)
    yield from _messages(messages[head:])
    prompt = body.get("prompt")
    if prompt is not None:
        yield prompt if isinstance(prompt, str) else _json(prompt), False


def _fields(body: dict[str, Any], names: Iterable[str]) -> Iterator[tuple[str, bool]]:
    for name in names:
        value = body.get(name)
        if value is not None:
            plain = _unmarked(value)
            text = value if isinstance(value, str) else _json(plain)
            yield f"\x1d{name}\x1f{text}", plain is not value


def _system(body: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    """Of the APIs that have it beside the messages."""
    blocks = body.get("system")
    if isinstance(blocks, list):
        yield "\x1dsystem\x1f", False
        yield from _parts(blocks)
    else:
        yield from _fields(body, ("system", "instructions"))


def _messages(messages: Iterable[Any]) -> Iterator[tuple[str, bool]]:
    for message in messages:
        if not isinstance(message, dict):
            yield f"\x1e\x1f{message if isinstance(message, str) else _json(message)}", False
            continue
        yield f"\x1e{_role(message)}\x1f", False
        for name, value in message.items():
            if name == "content" and isinstance(value, list):
                yield from _parts(value)
            elif isinstance(value, str) and name == "content":
                yield value, False
            elif value is not None and name not in _UNSEEN and not _is_plain(name, value):
                yield f"\x1f{name}\x1f{value if isinstance(value, str) else _json(value)}", False
        if message.get(_MARK):
            yield "", True


def _parts(parts: list[Any]) -> Iterator[tuple[str, bool]]:
    for part in parts:
        text = part.get("text") if isinstance(part, dict) else part
        plain = _unmarked(part)
        told = _TOLD.get(str(part.get("type"))) if isinstance(part, dict) else None
        if isinstance(text, str):
            yield text, plain is not part
        elif told is not None:
            yield from _block(plain, told)
            yield "", plain is not part
        else:
            digest = xxh3_64_hexdigest(_json(plain).encode())
            yield f"\x1fmedia\x1f{digest}", plain is not part


def _block(block: dict[str, Any], names: Iterable[str]) -> Iterator[tuple[str, bool]]:
    yield f"\x1f{block['type']}\x1f", False
    for name in names:
        value = block.get(name)
        if isinstance(value, list):
            yield from _parts(value)
        elif value is not None:
            yield value if isinstance(value, str) else _json(value), False


def _unmarked(value: Any) -> Any:
    """Without the caller's mark, also of its items; ``value`` itself where there is none."""
    if isinstance(value, dict) and value.get(_MARK):
        return {name: item for name, item in value.items() if name != _MARK}
    if isinstance(value, list) and any(isinstance(item, dict) and _MARK in item for item in value):
        return [_unmarked(item) for item in value]
    return value


def _is_plain(name: str, value: Any) -> bool:
    """A message may say that it is one."""
    return name == "type" and value == "message"


def _role(message: Any) -> str:
    role = message.get("role") if isinstance(message, dict) else None
    return role if isinstance(role, str) else ""


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
