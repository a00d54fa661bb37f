"""What may the known fields of a request be, that several dialects have?

Known fields are checked for type, finiteness and range; a boolean is not a number, and a number is
not a string. All others pass untouched. The bounds are those of the public API where it states one,
else what keeps a request from costing more than it says.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

MAX_MESSAGES: Final = 16_384
MAX_INT32: Final = 2**31 - 1

Name = Annotated[str, Meta(min_length=1, max_length=256, pattern=r"^[^\x00-\x1f\x7f]+\Z")]
Cap = Annotated[int, Meta(ge=1, le=MAX_INT32)]
UpToTwenty = Annotated[int, Meta(ge=0, le=20)]
Share = Annotated[float, Meta(ge=0, le=1)]
StopText = Annotated[str, Meta(max_length=1_024)]
ShortText = Annotated[str, Meta(max_length=1_024)]
TokenId = Annotated[int, Meta(ge=0, le=MAX_INT32)]


class StreamOptions(msgspec.Struct):
    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None
    include_obfuscation: bool | None = None


def largest_cap(*caps: int | None) -> int | None:
    """Of several caps the replica may obey any, so what is reserved is the largest."""
    largest = None
    for cap in caps:
        if cap is not None and (largest is None or cap > largest):
            largest = cap
    return largest
