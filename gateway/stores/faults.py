"""What can be wrong with a Redis server, in one table.

``TIMEOUT`` means unknown: the change may still be made. Every change is idempotent by call id, so
it is sent again later. All the others mean that nothing was changed.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import hiredis

from gateway.stores.resp import ServerError


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


FIRST_WORDS: Final[dict[str, FaultKind]] = {
    "LOADING": FaultKind.LOADING,
    "OOM": FaultKind.OUT_OF_MEMORY,
    "READONLY": FaultKind.READ_ONLY,
    "MASTERDOWN": FaultKind.MASTER_DOWN,
    "BUSY": FaultKind.BUSY,
    "NOSCRIPT": FaultKind.NO_SCRIPT,
}
WITHIN: Final[tuple[tuple[str, FaultKind], ...]] = (  # of what older servers say of a script
    ("OOM command not allowed", FaultKind.OUT_OF_MEMORY),
    ("-READONLY", FaultKind.READ_ONLY),
    ("Redis is busy running a script", FaultKind.BUSY),
)
FOREIGN: Final = (ServerError, hiredis.HiredisError, OSError, TimeoutError)


def fault_of(error: BaseException) -> StoreFault:
    text = str(error) or type(error).__name__
    match error:
        case ServerError():
            return StoreFault(_kind_of(text), text)
        case TimeoutError():
            return StoreFault(FaultKind.TIMEOUT, text)
        case OSError():
            return StoreFault(FaultKind.UNREACHABLE, text)
        case hiredis.HiredisError():
            return StoreFault(FaultKind.REFUSED, text)
        case _:
            raise TypeError(f"not a fault of a store: {error!r}") from error


def _kind_of(text: str) -> FaultKind:
    known = FIRST_WORDS.get(text.partition(" ")[0])
    if known is None:
        found = (kind for words, kind in WITHIN if words in text)
        known = next(found, FaultKind.REFUSED)
    return known
