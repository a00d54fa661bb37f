"""Which fields of a request does the gateway know, and what may they be? All others pass.

What would need stored state is refused: an answer is known to nobody once it has been given.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from gateway.wire.body import invalid
from gateway.wire.request_fields import (
    MAX_MESSAGES,
    Cap,
    Name,
    Share,
    ShortText,
    StreamOptions,
    UpToTwenty,
)

ITEM_REFERENCE: Final = "item_reference"
_WHOLE: Final = "responses are not stored; send the whole conversation in `input`."


class Item(msgspec.Struct):
    """Messages may leave out their type."""

    type: ShortText | None = None
    role: ShortText | None = None
    content: str | list[str | dict[str, Any]] | None = None


class TextFormat(msgspec.Struct):
    type: ShortText


class TextOptions(msgspec.Struct):
    format: TextFormat | None = None
    verbosity: ShortText | None = None


class Reasoning(msgspec.Struct):
    effort: ShortText | None = None
    summary: ShortText | None = None


class CountedFields(msgspec.Struct, kw_only=True):
    """What makes the prompt."""

    model: Name
    input: (
        Annotated[str, Meta(min_length=1)]
        | Annotated[list[Item], Meta(min_length=1, max_length=MAX_MESSAGES)]
    )
    instructions: str | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    text: TextOptions | None = None
    reasoning: Reasoning | None = None
    truncation: Literal["auto", "disabled"] | None = None
    previous_response_id: str | None = None
    conversation: str | dict[str, Any] | None = None


class ResponsesFields(CountedFields, kw_only=True):
    """``max_tokens``, ``n_predict`` and ``n_cmpl`` are not of this API, but servers obey them."""

    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_output_tokens: Cap | None = None
    max_tokens: Cap | None = None
    n_predict: Cap | None = None
    max_tool_calls: Cap | None = None
    n: Literal[1] | None = None
    n_cmpl: Literal[1] | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Share | None = None
    top_logprobs: UpToTwenty | None = None
    include: Annotated[list[ShortText], Meta(max_length=64)] | None = None
    metadata: Annotated[dict[str, Any], Meta(max_length=16)] | None = None
    user: ShortText | None = None
    safety_identifier: ShortText | None = None
    prompt_cache_key: ShortText | None = None
    service_tier: ShortText | None = None
    store: bool | None = None
    background: bool | None = None


def check_unstored(fields: ResponsesFields) -> None:
    """Raises Rejected for what only a server that stores responses can do."""
    check_stateless(fields)
    if fields.background:
        raise invalid("background is not supported: responses are not stored.", "background")
    if fields.store:
        raise invalid("store is not supported: set it to false or leave it out.", "store")


def check_stateless(fields: CountedFields) -> None:
    """Raises Rejected where a part of the prompt is named that only a store could have."""
    if fields.previous_response_id is not None:
        raise invalid(f"previous_response_id is not supported: {_WHOLE}", "previous_response_id")
    if fields.conversation is not None:
        raise invalid(f"conversation is not supported: {_WHOLE}", "conversation")
    for number, item in enumerate(fields.input):
        if isinstance(item, Item) and item.type == ITEM_REFERENCE:
            raise invalid(f"An item_reference is not supported: {_WHOLE}", f"input[{number}]")
