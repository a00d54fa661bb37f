"""Which ports do the parts use? The same as last time where they are still free."""

from __future__ import annotations

import json
import socket
from pathlib import Path


class Ports:
    """Remembers in ``path`` which port each name had."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, int] = json.loads(path.read_text()) if path.exists() else {}

    def block(self, name: str, count: int = 1) -> int:
        """The first of ``count`` consecutive free ports."""
        first = self._known.get(name, 0)
        while not first or not all(is_free(first + offset) for offset in range(count)):
            first = _any_free()
        self._known[name] = first
        self._path.write_text(json.dumps(self._known))
        return first


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _any_free() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
