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
            return path[:_PATH_CHARACTERS]
        if isinstance(value, dict):
            if any(_LONE.search(name) for name in value):
                return path[:_PATH_CHARACTERS]
            below = [(f"{path}.{name}" if path else name, one) for name, one in value.items()]
            left += reversed(below)
        elif isinstance(value, list):
            left += reversed([(f"{path}[{place}]", one) for place, one in enumerate(value)])
    return None
