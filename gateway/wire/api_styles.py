"""What differs between the APIs beside their bodies: headers, the status of an overload, the words
of service tiers, and how a silent stream says that it lives?

A call has the style of the API that its path belongs to, also before anything else is known of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from gateway.core.errors import CallError
from gateway.core.limits.demands import BucketState
from gateway.core.priority import PriorityClass
from gateway.wire.headers import TOKEN_METERS, ratelimit_headers, tightest
from gateway.wire.request_hints import service_tier_of

_MESSAGES_TIERS: Final = {
    PriorityClass.INTERACTIVE: "priority",
    PriorityClass.STANDARD: "standard",
    PriorityClass.BATCH: "batch",
}
LimitHeaders = Callable[[Sequence[BucketState], float], dict[str, str]]


@dataclass(frozen=True, slots=True)
class ApiStyle:
    """``limit_headers`` gets the buckets and the time (Unix epoch)."""

    tier: Callable[[PriorityClass], str]  # the class served, in the API's own word
    limit_headers: LimitHeaders
    keep_alive: bytes  # a whole frame that every client of the API ignores
    request_id_header: str = "x-request-id"
    overloaded_status: int = 503

    def status(self, error: CallError) -> int:
        return self.overloaded_status if error.status == 503 else error.status


def _messages_limits(buckets: Sequence[BucketState], now_at: float) -> dict[str, str]:
    """Of the tightest bucket of each kind; resets are moments in RFC 3339."""
    kinds = {
        "requests": frozenset({"rpm"}),
        "tokens": TOKEN_METERS,
        "input-tokens": frozenset({"itpm"}),
        "output-tokens": frozenset({"otpm"}),
    }
    headers: dict[str, str] = {}
    for kind, meters in kinds.items():
        bucket = tightest(buckets, meters)
        if bucket is not None:
            name = f"anthropic-ratelimit-{kind}"
            headers[f"{name}-limit"] = str(int(bucket.limit))
            headers[f"{name}-remaining"] = str(int(bucket.remaining))
            headers[f"{name}-reset"] = _moment(now_at + bucket.full_again_s)
    return headers


def _moment(at: float) -> str:
    """In whole seconds, rounded up, so that nobody returns too early."""
    return datetime.fromtimestamp(-(-at // 1), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


OPENAI: Final = ApiStyle(
    tier=service_tier_of,
    limit_headers=lambda buckets, now_at: ratelimit_headers(buckets),
    keep_alive=b": waiting\n\n",
)
ANTHROPIC: Final = ApiStyle(
    tier=_MESSAGES_TIERS.__getitem__,
    limit_headers=_messages_limits,
    keep_alive=b'event: ping\ndata: {"type": "ping"}\n\n',
    request_id_header="request-id",
    overloaded_status=529,
)


def style_of(path: str, headers: Mapping[str, str]) -> ApiStyle:
    """``headers`` in lower case. Paths that several APIs share go by what their clients send."""
    if path == "/v1/messages" or path.startswith("/v1/messages/"):
        return ANTHROPIC
    shared = path == "/v1/models" or path.startswith("/v1/models/")
    return ANTHROPIC if shared and "anthropic-version" in headers else OPENAI
