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

from collections.abc import Iterable
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


class CanonicalPrompt(msgspec.Struct):
    text: str
    marked: int = 0


def canonical_prompt(body: dict[str, Any], *, tools_first: bool = True) -> CanonicalPrompt:
    """Costs time in proportion to the text, at native speed."""
    pieces = _Pieces()
    pieces.add_fields(body, _BEFORE)
    messages = body.get("messages", body.get("input"))
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    messages = messages if isinstance(messages, list) else []
    if tools_first:
        pieces.add_fields(body, _TOOLS)
    pieces.add_system(body)
    if not tools_first:
        head = _of_system(messages)
        pieces.add_messages(messages[:head])
        pieces.add_fields(body, _TOOLS)
        messages = messages[head:]
    pieces.add_messages(messages)
    prompt = body.get("prompt")
    if prompt is not None:
        pieces.told.append(prompt if isinstance(prompt, str) else _json(prompt))
    return CanonicalPrompt("".join(pieces.told), pieces.marked)


class _Pieces:
    """Of the text, in order."""

    __slots__ = ("marked", "told")

    def __init__(self) -> None:
        self.told: list[str] = []
        self.marked = 0

    def mark(self) -> None:
        self.marked = sum(map(len, self.told))

    def add_fields(self, body: dict[str, Any], names: Iterable[str]) -> None:
        for name in names:
            value = body.get(name)
            if value is not None:
                plain = _unmarked(value)
                text = value if isinstance(value, str) else _json(plain)
                self.told.append(f"\x1d{name}\x1f{text}")
                if plain is not value:
                    self.mark()

    def add_system(self, body: dict[str, Any]) -> None:
        """Of the APIs that have it beside the messages."""
        blocks = body.get("system")
        if isinstance(blocks, list):
            self.told.append("\x1dsystem\x1f")
            self._add_parts(blocks)
        else:
            self.add_fields(body, ("system", "instructions"))

    def add_messages(self, messages: Iterable[Any]) -> None:
        add = self.told.append
        for message in messages:
            if not isinstance(message, dict):
                add(f"\x1e\x1f{message if isinstance(message, str) else _json(message)}")
                continue
            role = message.get("role")
            add(f"\x1e{role if isinstance(role, str) else ''}\x1f")
            for name, value in message.items():
                if name == "content" and isinstance(value, list):
                    self._add_parts(value)
                elif name == "content" and isinstance(value, str):
                    add(value)
                elif value is not None and name not in _UNSEEN and not _is_plain(name, value):
                    add(f"\x1f{name}\x1f{value if isinstance(value, str) else _json(value)}")
            if message.get(_MARK):
                self.mark()

    def _add_parts(self, parts: list[Any]) -> None:
        for part in parts:
            text = part.get("text") if isinstance(part, dict) else part
            plain = _unmarked(part)
            told = _TOLD.get(str(part.get("type"))) if isinstance(part, dict) else None
            if isinstance(text, str):
                self.told.append(text)
            elif told is not None:
                self._add_block(plain, told)
            else:
                self.told.append(f"\x1fmedia\x1f{xxh3_64_hexdigest(_json(plain).encode())}")
            if plain is not part:
                self.mark()

    def _add_block(self, block: dict[str, Any], names: Iterable[str]) -> None:
        self.told.append(f"\x1f{block['type']}\x1f")
        for name in names:
            value = block.get(name)
            if isinstance(value, list):
                self._add_parts(value)
            elif value is not None:
                self.told.append(value if isinstance(value, str) else _json(value))


def _of_system(messages: list[Any]) -> int:
    """How many messages at the beginning are the system's."""
    for number, message in enumerate(messages):
        role = message.get("role") if isinstance(message, dict) else None
        if not isinstance(role, str) or role not in _SYSTEM_ROLES:
            return number
    return len(messages)


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


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
