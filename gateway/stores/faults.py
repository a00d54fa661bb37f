"""What can be wrong with a Redis server, in one table.

``TIMEOUT`` means unknown: the change may still be made. Every change is idempotent by call id, so
it is sent again later. All the others mean that nothing was changed.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from redis import exceptions


class FaultKind(StrEnum):
    TIMEOUT = "timeout"
    UNREACHABLE = "unreachable"
    LOADING = "loading"
    OUT_OF_MEMORY = "out_of_memory"
    READ_ONLY = "read_only"
    MASTER_DOWN = "master_down"
    BUSY = "busy"
    NO_SCRIPT = "no_script"
    REFUSED = "refused"


class StoreFault(Exception):
    def __init__(self, kind: FaultKind, detail: str) -> None:
        self.kind = kind
        super().__init__(f"{kind}: {detail}")


FAULTS: Final[tuple[tuple[type[BaseException], FaultKind], ...]] = (
    (TimeoutError, FaultKind.TIMEOUT),
    (exceptions.TimeoutError, FaultKind.TIMEOUT),
    (exceptions.BusyLoadingError, FaultKind.LOADING),
    (exceptions.OutOfMemoryError, FaultKind.OUT_OF_MEMORY),
    (exceptions.ReadOnlyError, FaultKind.READ_ONLY),
    (exceptions.MasterDownError, FaultKind.MASTER_DOWN),
    (exceptions.NoScriptError, FaultKind.NO_SCRIPT),
    (exceptions.ConnectionError, FaultKind.UNREACHABLE),
    (OSError, FaultKind.UNREACHABLE),
    (exceptions.ResponseError, FaultKind.REFUSED),
    (exceptions.RedisError, FaultKind.REFUSED),
)
FOREIGN: Final = (exceptions.RedisError, OSError, TimeoutError)


def fault_of(error: BaseException) -> StoreFault:
    """The first entry that fits; BUSY and out-of-memory also hide in plain response errors."""
    text = str(error)
    if isinstance(error, exceptions.ResponseError):
        if text.startswith("BUSY") or "Redis is busy running a script" in text:
            return StoreFault(FaultKind.BUSY, text)
        if "OOM command not allowed" in text:
            return StoreFault(FaultKind.OUT_OF_MEMORY, text)
    for kind_of_error, kind in FAULTS:
        if isinstance(error, kind_of_error):
            return StoreFault(kind, text or type(error).__name__)
    raise TypeError(f"not a fault of a store: {error!r}") from error
