"""Which secrets may lie in a file, and what do the files say?

A container platform mounts secrets as files: ``NAME_FILE`` names one, for every ``NAME`` of
``SECRETS``. One line end at its end is not part of the value. A value that is given both ways, and
a file that cannot be read, is a mistake; a mistake never repeats what a file says.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

SECRETS = (
    "SECRET_KEY",
    "FAIRWAY_KEY_PEPPER",
    "DATABASE_URL",
    "REDIS_URL",
    "FAIRWAY_GATEWAY_METRICS_TOKEN",
)
SUFFIX = "_FILE"
MOST_BYTES = 65_536


def file_names() -> tuple[str, ...]:
    return tuple(f"{name}{SUFFIX}" for name in SECRETS)


def from_files(environment: Mapping[str, str], mistakes: list[str]) -> dict[str, str]:
    """Name -> value of the secrets that lie in files; an empty name of a file is none."""
    found = {}
    for name in SECRETS:
        if path := environment.get(f"{name}{SUFFIX}"):
            try:
                found[name] = _read(Path(path))
            except (OSError, ValueError) as error:
                words = error.strerror if isinstance(error, OSError) else str(error)
                mistakes.append(f"{name}{SUFFIX}: cannot be read: {words}")
            if environment.get(name):
                mistakes.append(f"{name}{SUFFIX}: {name} is given too; keep one of them")
    return found


def _read(path: Path) -> str:
    with path.open("rb") as file:
        raw = file.read(MOST_BYTES + 1)
    if len(raw) > MOST_BYTES:
        raise ValueError(f"more than {MOST_BYTES:,} bytes")
    try:
        text = raw.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    if not text or "\0" in text:
        raise ValueError("it is empty" if not text else "it has a NUL character")
    return text
