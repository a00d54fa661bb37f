"""Did one of our own pages open this socket?

Browsers send ``Origin`` with every socket and let no page change it. Allowed is exactly the scheme,
host and port that the browser has connected to, or an origin that the installation trusts; an
absent or ``null`` origin, another port or scheme, a subdomain, a longer name is not.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any


def is_own_page(scope: Mapping[str, Any], trusted: Collection[str], https: bool) -> bool:
    """``https``: pages are served over TLS only, whatever a proxy in front speaks to us."""
    origins = [value for name, value in scope["headers"] if name == b"origin"]
    hosts = [value for name, value in scope["headers"] if name == b"host"]
    if len(origins) != 1 or len(hosts) != 1:
        return False
    origin = origins[0].decode("latin-1")
    secure = https or scope.get("scheme") in {"wss", "https"}
    own = f"{'https' if secure else 'http'}://{hosts[0].decode('latin-1')}"
    return origin == own or origin in trusted
