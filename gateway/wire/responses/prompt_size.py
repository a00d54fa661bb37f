"""How much prompt text does a request carry? Instructions, tools, schema and items; never media."""

from __future__ import annotations

from typing import Any, Final

from gateway.wire.prompt.text import PromptText

_OF_PARTS: Final = frozenset({"content", "output", "summary"})
_TEXTS: Final = ("text", "refusal")
_JSON_FIELDS: Final = ("tools", "text")


def prompt_text(body: dict[str, Any]) -> PromptText:
    """``body`` has been checked by its fields."""
    text = PromptText()
    if isinstance(instructions := body.get("instructions"), str):
        text.add(instructions)
    for name in _JSON_FIELDS:
        if body.get(name) is not None:
            text.add_json(body[name])
    given = body["input"]
    for item in [given] if isinstance(given, str) else given:
        _add_item(text, item)
    return text


def _add_item(text: PromptText, item: str | dict[str, Any]) -> None:
    """A message, a call of a tool, what a tool has answered, or a thought."""
    if isinstance(item, str):
        text.add(item)
        return
    for name, value in item.items():
        if isinstance(value, str):
            text.add(value)
        elif name in _OF_PARTS and value is not None:
            for part in value if isinstance(value, list) else [value]:
                _add_part(text, part)
        elif value is not None:
            text.add_json(value)


def _add_part(text: PromptText, part: Any) -> None:
    """A part that has no text of its own is a medium."""
    if isinstance(part, str):
        text.add(part)
    elif isinstance(part, dict):
        words = [part[name] for name in _TEXTS if isinstance(part.get(name), str)]
        text.has_media = text.has_media or not words
        for word in words:
            text.add(word)
