"""Where are the secrets of a local run? One file each under var, made once, readable by us only."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def secret(path: Path) -> str:
    """Reads the secret, making it first if there is none."""
    if not path.exists():
        write_private(path, secrets.token_urlsafe(48))
    return path.read_text().strip()


def write_private(path: Path, text: str) -> None:
    """Mode 0600 from the first moment; a reader sees the old file or the new one."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    fresh.replace(path)
