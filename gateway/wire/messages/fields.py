"""Which fields of a Messages request does the gateway know, and what may they be?

Fields, and members of content blocks, that are not named here pass untouched, and so do blocks of
other types: the API grows faster than its gateways. ``max_tokens`` is required, as the API has it,
except where only tokens are counted.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from gateway.wire.request_fields import (
    MAX_INT32,
    MAX_MESSAGES,
    Cap,
    Name,
    Share,
    ShortText,
    StopText,
)

LEAST_THINKING_TOKENS: Final = 1_024

Type = Annotated[str, Meta(min_length=1, max_length=128)]
ToolName = Annotated[str, Meta(min_length=1, max_length=256)]


class Block(msgspec.Struct):
    """Of a message or a tool's result. ``NEEDED`` says what each type must have."""

    type: Type
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    id: str | None = None
    name: str | None = None
    input: dict[str, Any] | None = None
    tool_use_id: str | None = None
    content: str | list[Any] | dict[str, Any] | None = None
    is_error: bool | None = None
    source: dict[str, Any] | str | None = None


NEEDED: Final[dict[str, tuple[str, ...]]] = {
    "text": ("text",),
    "image": ("source",),
    "document": ("source",),
    "thinking": ("thinking",),
    "redacted_thinking": ("data",),
    "tool_use": ("id", "name", "input"),
    "tool_result": ("tool_use_id",),
}


class Message(msgspec.Struct):
    """Roles are the replica's to judge: clients send others than ``user`` and ``assistant``."""

    role: Annotated[str, Meta(min_length=1, max_length=64)]
    content: str | list[Block]


class Tool(msgspec.Struct):
    """Tools of the API's own (``type`` with a date) have no schema."""

    name: ToolName | None = None
    type: Type | None = None
    description: str | None = None
    input_schema: dict[str, Any] | None = None


class ToolChoice(msgspec.Struct):
    type: Literal["auto", "any", "tool", "none"]
    name: ToolName | None = None
    disable_parallel_tool_use: bool | None = None


class Thinking(msgspec.Struct):
    type: Literal["enabled", "disabled", "adaptive"]
    budget_tokens: Annotated[int, Meta(ge=LEAST_THINKING_TOKENS, le=MAX_INT32)] | None = None


class Metadata(msgspec.Struct):
    user_id: ShortText | None = None


class CountedFields(msgspec.Struct, kw_only=True):
    """What makes the prompt."""

    model: Name
    messages: Annotated[list[Message], Meta(min_length=1, max_length=MAX_MESSAGES)]
    system: str | list[Block] | None = None
    tools: list[Tool] | None = None
    tool_choice: ToolChoice | None = None
    thinking: Thinking | None = None


class MessagesFields(CountedFields, kw_only=True):
    max_tokens: Cap
    stream: bool | None = None
    stop_sequences: Annotated[list[StopText], Meta(max_length=64)] | None = None
    temperature: Annotated[float, Meta(ge=0, le=1)] | None = None
    top_p: Share | None = None
    top_k: Annotated[int, Meta(ge=0, le=MAX_INT32)] | None = None
    metadata: Metadata | None = None
    service_tier: Literal["auto", "standard_only"] | None = None
