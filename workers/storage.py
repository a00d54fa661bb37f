"""Where are files on disk, and who may read them?

``<root>/<file id>`` is a whole file, readable by this user only. It comes into being by a rename,
so that nobody sees half of it; what is being written is ``<root>/incoming/<random>``. Results of
running batches are below ``<root>/results``. Everything here blocks: call it in a thread.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import time
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

_FILE_ID = re.compile(r"file-[0-9A-Za-z]{24}")
ABANDONED_S = 6 * 3600.0


class Storage:
    def __init__(self, root: Path) -> None:
        self._root = root
        self._incoming = root / "incoming"

    def path(self, file_id: str) -> Path:
        """Raises ValueError for what is not an id, before it can become a path."""
        if not _FILE_ID.fullmatch(file_id):
            raise ValueError("not a file id")
        return self._root / file_id

    def results(self, batch_id: str) -> Path:
        return self._root / "results" / batch_id

    def begin(self) -> Incoming:
        self._incoming.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._root.chmod(0o700)
        return Incoming(self._incoming / secrets.token_hex(16))

    def keep(self, incoming: Incoming, file_id: str) -> None:
        """From now on the bytes survive a crash."""
        incoming.seal()
        os.rename(incoming.path, self.path(file_id))

    def remove(self, file_id: str) -> None:
        self.path(file_id).unlink(missing_ok=True)

    def forget_results(self, batch_id: str) -> None:
        shutil.rmtree(self.results(batch_id), ignore_errors=True)

    def sweep(self, known: Iterable[str], now_at: float | None = None) -> int:
        """Deletes what nobody owns and nobody has touched for six hours."""
        limit = (time.time() if now_at is None else now_at) - ABANDONED_S
        owned = set(known)
        found = [path for path in self._root.glob("file-*") if path.name not in owned]
        old = [path for path in [*found, *self._incoming.glob("*")] if _modified(path) < limit]
        for path in old:
            path.unlink(missing_ok=True)
        return len(old)


class Incoming:
    """A file that is being written. ``close`` without ``Storage.keep`` deletes it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size_bytes = 0
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self._file: BinaryIO = open(descriptor, "wb", buffering=0)  # noqa: SIM115

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[self._file.write(view) :]
        self.size_bytes += len(data)

    def seal(self) -> None:
        os.fsync(self._file.fileno())
        self._file.close()

    def close(self) -> None:
        self._file.close()
        self.path.unlink(missing_ok=True)


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return float("inf")
