"""Which fields of a request for vectors does the gateway know, and what may they be?"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from gateway.wire.request_fields import Name, ShortText, TokenId

MAX_INPUTS: Final = 2_048
_Text = Annotated[str, Meta(min_length=1)]
_TokenIds = Annotated[list[TokenId], Meta(min_length=1)]


class EmbeddingsFields(msgspec.Struct, kw_only=True):
    model: Name
    input: _Text | Annotated[list[_Text | TokenId | _TokenIds], Meta(min_length=1)]
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Annotated[int, Meta(ge=1, le=65_536)] | None = None
    user: ShortText | None = None
    service_tier: ShortText | None = None
    metadata: Annotated[dict[str, Any], Meta(max_length=16)] | None = None
    stream: bool | None = None
