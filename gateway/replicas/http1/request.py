"""The head of a request as bytes, and what the fields of an answer say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

MOST_TYPES: Final = 64  # that are remembered
_NOT_IN_A_FIELD: Final = re.compile(r"[^\t\x20-\x7e\x80-\xff]")


def request_head(start: str, fields: Mapping[str, str], body_bytes: int | None) -> bytes:
    """``start``: method and path. ``body_bytes`` None: no body. Raises ValueError for what could
    end a field early, or has no byte for a character."""
    lines = [f"{start} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in fields.items()]
    if body_bytes is not None:
        lines.append(f"Content-Length: {body_bytes}")
    if _NOT_IN_A_FIELD.search("".join(lines)):
        raise ValueError("a header of the request has a character that it cannot carry")
    return "\r\n".join((*lines, "", "")).encode("latin-1")


def media_type(headers: Mapping[bytes, bytes]) -> str:
    """Without parameters, in lower case; empty where the answer does not say."""
    return _media_type(headers.get(b"content-type", b""))


@lru_cache(MOST_TYPES)
def _media_type(said: bytes) -> str:
    return said.partition(b";")[0].strip().decode("latin-1").lower()


def is_encoded(headers: Mapping[bytes, bytes]) -> bool:
    """In another way than in chunks."""
    content = headers.get(b"content-encoding", b"identity").strip().lower()
    transfer = headers.get(b"transfer-encoding", b"chunked").strip().lower()
    return content != b"identity" or transfer != b"chunked"
