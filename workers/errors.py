"""What files and batches refuse, in the words and statuses that the API's clients know."""

from __future__ import annotations

from gateway.core.errors import Rejected
from gateway.core.reasons import Reason

ROOM_RETRY_S = 60.0


def no_such(kind: str, name: str) -> Rejected:
    """For what does not exist and for what belongs to somebody else: the same words."""
    message = f"No such {kind} object: {name[:60]}"
    return Rejected(Reason.INVALID_REQUEST, message, param="id", status=404)


def wrong(message: str, param: str | None = None) -> Rejected:
    return Rejected(Reason.INVALID_REQUEST, message, param=param)


def conflict(message: str) -> Rejected:
    return Rejected(Reason.INVALID_REQUEST, message, status=409)


def no_room(message: str) -> Rejected:
    """The tenant's own quota of files or batches."""
    return Rejected(Reason.CONCURRENCY, message, retry_after_s=ROOM_RETRY_S)
