"""How much prompt text does a request carry? Messages, tools, functions, schemas; never media."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from gateway.wire.prompt.text import PromptText

_PROMPT_FIELDS: Final = ("tools", "functions", "response_format", "documents", "suffix")


def add_messages(text: PromptText, messages: Iterable[dict[str, Any]]) -> None:
    for message in messages:
        for name, value in message.items():
            if isinstance(value, str):
                text.add(value)
            elif name == "content" and isinstance(value, list):
                _add_parts(text, value)
            elif value is not None:
                text.add_json(value)


def add_fields(text: PromptText, body: dict[str, Any]) -> None:
    for name in _PROMPT_FIELDS:
        value = body.get(name)
        if value is not None:
            text.add_json(value)


def _add_parts(text: PromptText, parts: list[Any]) -> None:
    """A part that has no text of its own is a medium."""
    for part in parts:
        if isinstance(part, str):
            text.add(part)
            continue
        values = [part.get(name) for name in ("text", "refusal", "thinking")]
        words = [value for value in values if isinstance(value, str)]
        text.has_media = text.has_media or not words
        for value in words:
            text.add(value)
