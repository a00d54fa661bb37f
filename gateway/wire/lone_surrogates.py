"""Which field of a body that the decoder refused holds half of a character?

JSON may escape a code unit that UTF-16 uses for half of a character. Alone it is no text: it has no
UTF-8 form, so no replica can get it. Read only after a refusal, to name the field.
"""

from __future__ import annotations

import json
import re
from typing import Any

_ESCAPED = re.compile(rb"\\u[dD][89a-fA-F]")
_LONE = re.compile("[\ud800-\udfff]")
_PATH_CHARACTERS = 200


def field_with_lone_surrogate(raw: bytes) -> str | None:
    """Its path, such as ``messages[0].content``; empty for a name of the outermost object. None:
    there is none, or the body is no JSON for another reason."""
    if not _ESCAPED.search(raw):
        return None
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return _path(body)


def _path(body: Any) -> str | None:
    """Depth first, in the order of the body. A name that holds one is not repeated."""
    left: list[tuple[str, Any]] = [("", body)]
    while left:
        path, value = left.pop()
        if isinstance(value, str) and _LONE.search(value):
            return path
        if isinstance(value, dict):
            if any(_LONE.search(name) for name in value):
                return path
            dot = "." if path else ""
            left += reversed([(_below(path, dot, name), one) for name, one in value.items()])
        elif isinstance(value, list):
            left += reversed([(_below(path, f"[{n}]"), one) for n, one in enumerate(value)])
    return None


def _below(path: str, *parts: str) -> str:
    """Cut at once: a name may be as long as the body, and is in the path of all that it holds."""
    return "".join((path, *(part[:_PATH_CHARACTERS] for part in parts)))[:_PATH_CHARACTERS]
