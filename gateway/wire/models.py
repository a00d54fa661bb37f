"""``models``: which models may this key use, in the shape of the API that asks?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec


@dataclass(frozen=True, slots=True)
class ListedModel:
    """``created`` is seconds since the Unix epoch."""

    name: str
    created: int = 0
    owner: str = "fairway"


def models_body(models: Sequence[ListedModel], *, anthropic: bool = False) -> bytes:
    """``anthropic``: the request carried ``anthropic-version``."""
    data = [_entry(model, anthropic=anthropic) for model in models]
    if not anthropic:
        return msgspec.json.encode({"object": "list", "data": data})
    first, last = (data[0]["id"], data[-1]["id"]) if data else (None, None)
    return msgspec.json.encode(
        {"data": data, "has_more": False, "first_id": first, "last_id": last}
    )


def model_body(model: ListedModel, *, anthropic: bool = False) -> bytes:
    return msgspec.json.encode(_entry(model, anthropic=anthropic))


def _entry(model: ListedModel, *, anthropic: bool) -> dict[str, Any]:
    if anthropic:
        created_at = datetime.fromtimestamp(model.created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        shown = {"display_name": model.name, "created_at": created_at}
        return {"type": "model", "id": model.name, **shown}
    return {
        "id": model.name,
        "object": "model",
        "created": model.created,
        "owned_by": model.owner,
    }
