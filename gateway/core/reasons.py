"""Why a call ended as it did: one vocabulary for errors, headers, metrics, logs, events and pages.

429 means that capacity exists but the caller must wait; 503 means that there is none.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """Exactly one per call."""

    COMPLETED = "completed"
    REJECTED = "rejected"  # before the queue
    EVICTED = "evicted"  # left the queue undispatched
    ABORTED = "aborted"  # after dispatch, by the client or an operator
    FAILED = "failed"  # after dispatch, by the upstream


class Reason(StrEnum):
    INVALID_API_KEY = "invalid_api_key"
    MODEL_NOT_ALLOWED = "model_not_allowed"
    SUSPENDED = "suspended"
    NOT_PERMITTED = "not_permitted"
    MODEL_NOT_FOUND = "model_not_found"
    ENDPOINT_NOT_SERVED = "endpoint_not_served"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    INVALID_REQUEST = "invalid_request"
    CANNOT_FIT = "cannot_fit"
    BODY_TIMEOUT = "body_timeout"
    BODY_TOO_LARGE = "body_too_large"
    UNSUPPORTED_ENCODING = "unsupported_encoding"
    TOKENS_PER_MINUTE = "tokens_per_minute"
    REQUESTS_PER_MINUTE = "requests_per_minute"
    CONCURRENCY = "concurrency"
    DAILY_BUDGET = "daily_budget"
    MONTHLY_BUDGET = "monthly_budget"
    CREDIT_EXHAUSTED = "credit_exhausted"
    ENQUEUED_TOKENS = "enqueued_tokens"
    TOO_MANY_FAILURES = "too_many_failures"
    SHED = "shed"
    QUEUE_FULL = "queue_full"
    QUEUE_TIMEOUT = "queue_timeout"
    DEADLINE = "deadline"
    NO_REPLICA = "no_replica"
    DRAINING = "draining"
    QUOTA_UNAVAILABLE = "quota_unavailable"
    GATEWAY_FULL = "gateway_full"
    UPSTREAM_REFUSED = "upstream_refused"
    UPSTREAM_ERROR = "upstream_error"
    UPSTREAM_INCOMPLETE = "upstream_incomplete"
    UPSTREAM_TIMEOUT = "upstream_timeout"
    STREAM_STALLED = "stream_stalled"
    CLIENT_GONE = "client_gone"
    CANCELLED = "cancelled"
    PREEMPTED = "preempted"
    INTERNAL = "internal"


@dataclass(frozen=True, slots=True)
class ReasonFacts:
    """``status`` is the HTTP status of an answer not yet started, ``dispatched_status`` of one
    whose call runs on a replica, where that differs; ``meaning`` is for people."""

    status: int
    meaning: str
    dispatched_status: int | None = None


REASONS: dict[Reason, ReasonFacts] = {
    Reason.INVALID_API_KEY: ReasonFacts(
        401, "The API key is missing, malformed, unknown, disabled or expired."
    ),
    Reason.MODEL_NOT_ALLOWED: ReasonFacts(403, "The API key may not use this model."),
    Reason.SUSPENDED: ReasonFacts(403, "The organization is suspended."),
    Reason.NOT_PERMITTED: ReasonFacts(
        403, "The API key lacks the scope for this endpoint or address."
    ),
    Reason.MODEL_NOT_FOUND: ReasonFacts(404, "No model of this name is served."),
    Reason.ENDPOINT_NOT_SERVED: ReasonFacts(
        404, "This endpoint does not exist or the model does not serve it."
    ),
    Reason.METHOD_NOT_ALLOWED: ReasonFacts(405, "The endpoint does not accept this HTTP method."),
    Reason.INVALID_REQUEST: ReasonFacts(
        400, "The request body is malformed or a field is out of range."
    ),
    Reason.CANNOT_FIT: ReasonFacts(
        400, "The call is larger than a limit that it must fit into and can never be admitted."
    ),
    Reason.BODY_TIMEOUT: ReasonFacts(408, "The request body did not arrive in time."),
    Reason.BODY_TOO_LARGE: ReasonFacts(413, "The request body is larger than allowed."),
    Reason.UNSUPPORTED_ENCODING: ReasonFacts(
        415, "The request body has a content encoding or type that is not accepted."
    ),
    Reason.TOKENS_PER_MINUTE: ReasonFacts(429, "The tokens-per-minute limit is used up."),
    Reason.REQUESTS_PER_MINUTE: ReasonFacts(429, "The requests-per-minute limit is used up."),
    Reason.CONCURRENCY: ReasonFacts(429, "Too many calls are queued or in flight at once."),
    Reason.DAILY_BUDGET: ReasonFacts(429, "The token budget of this day is used up."),
    Reason.MONTHLY_BUDGET: ReasonFacts(429, "The token budget of this month is used up."),
    Reason.CREDIT_EXHAUSTED: ReasonFacts(429, "The organization's credit is used up."),
    Reason.ENQUEUED_TOKENS: ReasonFacts(429, "Too many batch tokens are waiting."),
    Reason.TOO_MANY_FAILURES: ReasonFacts(429, "Too many wrong API keys came from this address."),
    Reason.SHED: ReasonFacts(429, "Refused because of load."),
    Reason.QUEUE_FULL: ReasonFacts(429, "The queue of this tenant or class is full."),
    Reason.QUEUE_TIMEOUT: ReasonFacts(
        429, "The call waited in the queue as long as its class allows."
    ),
    Reason.DEADLINE: ReasonFacts(429, "The caller's own deadline passed.", dispatched_status=504),
    Reason.NO_REPLICA: ReasonFacts(503, "No replica can serve this model now."),
    Reason.DRAINING: ReasonFacts(503, "The gateway is shutting down."),
    Reason.QUOTA_UNAVAILABLE: ReasonFacts(
        503, "The quota store cannot be reached and this budget fails closed."
    ),
    Reason.GATEWAY_FULL: ReasonFacts(503, "The gateway holds as many calls as it can."),
    Reason.UPSTREAM_REFUSED: ReasonFacts(
        400, "The replica refused the request; its own status is relayed."
    ),
    Reason.UPSTREAM_ERROR: ReasonFacts(502, "The replica failed."),
    Reason.UPSTREAM_INCOMPLETE: ReasonFacts(
        502, "The replica's answer ended before it was complete."
    ),
    Reason.UPSTREAM_TIMEOUT: ReasonFacts(504, "The replica did not answer in time."),
    Reason.STREAM_STALLED: ReasonFacts(504, "The replica stopped sending tokens."),
    Reason.CLIENT_GONE: ReasonFacts(499, "The client closed the connection."),
    Reason.CANCELLED: ReasonFacts(499, "An operator cancelled the call."),
    Reason.PREEMPTED: ReasonFacts(
        429, "A batch attempt gave its slot to an interactive call; ends an attempt, never a call."
    ),
    Reason.INTERNAL: ReasonFacts(500, "A fault inside the gateway."),
}

LOAD_REASONS = frozenset(
    {Reason.SHED, Reason.QUEUE_FULL, Reason.QUEUE_TIMEOUT, Reason.GATEWAY_FULL}
)  # the gateway had more work than capacity
QUOTA_REASONS = frozenset(
    {
        Reason.TOKENS_PER_MINUTE,
        Reason.REQUESTS_PER_MINUTE,
        Reason.CONCURRENCY,
        Reason.DAILY_BUDGET,
        Reason.MONTHLY_BUDGET,
        Reason.CREDIT_EXHAUSTED,
        Reason.ENQUEUED_TOKENS,
    }
)  # the tenant's own limits
