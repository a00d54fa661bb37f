"""How much prompt text does a Messages request carry?

Texts, thinking, the calls of tools and their results, tools and system; documents that are plain
text. Pictures and encoded files never count by their bytes.
"""

from __future__ import annotations

from typing import Any

from gateway.wire.prompt.text import PromptText

_WORDS = ("text", "thinking", "title", "context", "name")


def prompt_text(body: dict[str, Any]) -> PromptText:
    """``body`` has been validated."""
    text = PromptText()
    _add_content(text, body.get("system"))
    for message in body["messages"]:
        text.add(message["role"])
        _add_content(text, message["content"])
    if body.get("tools"):
        text.add_json(body["tools"])
    return text


def _add_content(text: PromptText, content: Any) -> None:
    if isinstance(content, str):
        text.add(content)
    elif isinstance(content, list):
        for block in content:
            _add_block(text, block)
    elif isinstance(content, dict):
        _add_block(text, content)


def _add_block(text: PromptText, block: Any) -> None:
    if not isinstance(block, dict):
        _add_content(text, block)
        return
    for name in _WORDS:
        if isinstance(block.get(name), str):
            text.add(block[name])
    if block.get("input"):
        text.add_json(block["input"])
    _add_content(text, block.get("content"))
    source = block.get("source")
    if isinstance(source, dict):
        _add_source(text, source)


def _add_source(text: PromptText, source: dict[str, Any]) -> None:
    if source.get("type") == "text":
        _add_content(text, source.get("data"))
    elif source.get("type") == "content":
        _add_content(text, source.get("content"))
    else:
        text.has_media = True
