"""The one tree of errors that end a call.

Each carries its reason, its HTTP status, what a person should know, and, where waiting helps, the
time after which a retry is expected to succeed. ``wire`` renders it in the caller's dialect.
"""

from __future__ import annotations

from gateway.core.reasons import REASONS, Outcome, Reason


class CallError(Exception):
    """Ends a call. ``retry_after_s`` is None where waiting does not help."""

    outcome: Outcome = Outcome.REJECTED

    def __init__(
        self,
        reason: Reason,
        message: str = "",
        *,
        param: str | None = None,
        retry_after_s: float | None = None,
        status: int | None = None,
    ) -> None:
        self.reason = reason
        self.message = message or REASONS[reason].meaning
        self.param = param
        self.retry_after_s = retry_after_s
        self.status = REASONS[reason].status if status is None else status
        super().__init__(f"{reason}: {self.message}")


class Rejected(CallError):
    """Refused before the queue."""


class LimitExceeded(Rejected):
    """A bucket refused. ``limit``, ``used`` and ``needed`` are in the unit of the bucket."""

    def __init__(
        self,
        reason: Reason,
        message: str,
        *,
        bucket: str,
        limit: float,
        used: float,
        needed: float,
        retry_after_s: float,
    ) -> None:
        super().__init__(reason, message, retry_after_s=retry_after_s)
        self.bucket = bucket
        self.limit = limit
        self.used = used
        self.needed = needed


class Evicted(CallError):
    """Left the queue without having been dispatched. ``waited_s``: how long it had stood there, in
    seconds; None where it never did."""

    outcome = Outcome.EVICTED
    waited_s: float | None = None


class Aborted(CallError):
    """Ended after dispatch by the client, an operator or the caller's deadline."""

    outcome = Outcome.ABORTED


class Interrupted(CallError):
    """Ended from outside: the client left, an operator cancelled, the key was revoked, the gateway
    stops. The outcome depends on how far the call had come."""


class Preempted(CallError):
    """Ends an attempt, never a call: the slot was taken back, the call asks again."""

    def __init__(self) -> None:
        super().__init__(Reason.PREEMPTED)


class UpstreamError(CallError):
    """The replica failed. ``retryable``: another replica may succeed; ``blames_replica``: counts
    for its health."""

    outcome = Outcome.FAILED

    def __init__(
        self,
        reason: Reason,
        message: str = "",
        *,
        status: int | None = None,
        retryable: bool = True,
        blames_replica: bool = True,
        retry_after_s: float | None = None,
        upstream_body: bytes | None = None,
    ) -> None:
        super().__init__(reason, message, status=status, retry_after_s=retry_after_s)
        self.retryable = retryable
        self.blames_replica = blames_replica
        self.upstream_body = upstream_body


class ReplicaUnreachable(UpstreamError):
    """No connection was made, so no byte of the request was sent: two retries are allowed."""


class ConnectionLost(UpstreamError):
    """The replica closed or reset the connection before its answer was complete: probe it at
    once."""


class ReplicaFull(UpstreamError):
    """The replica's own 429 or 503: try elsewhere; ``retry_after_s`` (1-2) is how long to spare
    it."""
