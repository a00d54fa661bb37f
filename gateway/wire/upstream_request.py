"""Which fields of a replica's request are the gateway's own, whatever the caller wrote?

The tenant's cache salt and the priority. What the gateway does not give, the caller does not give
either.
"""

from __future__ import annotations

from typing import Any

from gateway.wire.dialect import Rewrite


def write_own_fields(body: dict[str, Any], rewrite: Rewrite) -> None:
    if rewrite.cache_salt is not None:
        body["cache_salt"] = rewrite.cache_salt
    else:
        body.pop("cache_salt", None)
    if rewrite.priority is not None:
        body["priority"] = rewrite.priority
    else:
        body.pop("priority", None)
