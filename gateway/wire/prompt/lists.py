"""A field that is one text, several texts, one text in token ids, or several of those."""

from __future__ import annotations

from gateway.wire.body import invalid
from gateway.wire.prompt.text import PromptText

Prompts = str | list[str | int | list[int]]


def add_prompts(text: PromptText, prompts: Prompts, *, name: str, most: int) -> tuple[int, int]:
    """How many there are, and the bytes of the longest: a list of numbers is one, in token ids.
    Raises Rejected."""
    parts = [prompts] if isinstance(prompts, str) else prompts
    kinds = {type(part) for part in parts}
    if kinds == {int}:
        text.add_tokens(len(parts))
        return 1, text.size_bytes
    if len(kinds) > 1 or len(parts) > most:
        raise invalid(f"The field {name} must be 1 to {most} prompts of one kind.", name)
    longest = 0
    for part in parts:
        before = text.size_bytes
        if isinstance(part, str):
            text.add(part)
        elif isinstance(part, list):
            text.add_tokens(len(part))
        longest = max(longest, text.size_bytes - before)
    return len(parts), longest
