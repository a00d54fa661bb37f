"""Which headers go where? Both directions are allow-lists: what is not named here does not pass.

Hop-by-hop and identity headers (``connection``, ``set-cookie``, ``server``, ``x-forwarded-*``) and
llama.cpp's ``x-conversation-id``, which keeps a generation alive after its client has gone, are
therefore never forwarded. Names are lower case; values that go out are ASCII without line breaks.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from gateway.core.errors import Rejected
from gateway.core.limits.demands import BucketState
from gateway.core.priority import PriorityClass, label_of
from gateway.core.reasons import Reason
from gateway.wire.durations import go_duration

RawHeaders = Iterable[tuple[bytes, bytes]]

EVENT_STREAM: Final = "text/event-stream"
JSON: Final = "application/json"
TO_REPLICA: Final = frozenset({"traceparent", "tracestate"})
FROM_REPLICA: Final = frozenset({"openai-processing-ms"})
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._:\-]{1,128}")
_JSON: Final = re.compile(r"application/json\s*(?:;\s*charset=\"?utf-?8\"?\s*)?", re.IGNORECASE)
TOKEN_METERS: Final = frozenset({"tpm", "itpm", "otpm", "day", "month", "enqueued"})
REQUEST_METERS: Final = frozenset({"rpm"})


class CallLabels(msgspec.Struct, frozen=True):
    """What the gateway tells about a call beside its answer. None = not known, header left out."""

    call_id: str
    request_id: str
    klass: PriorityClass | None = None
    replica: str | None = None
    cache: str | None = None
    queue_s: float | None = None
    prefix_hit_ratio: float | None = None


def decoded(raw: RawHeaders) -> dict[str, str]:
    """Lower-case names; of a repeated header the first counts."""
    headers: dict[str, str] = {}
    for name, value in raw:
        headers.setdefault(name.decode("latin-1").lower(), value.decode("latin-1"))
    return headers


def encoded(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """Characters that a header cannot carry are replaced."""
    text = "".join(headers.values())
    if text.isascii() and text.isprintable():
        return [(name.encode(), value.encode()) for name, value in headers.items()]
    return [
        (name.encode(), re.sub(r"[^\x20-\x7e]", "?", value).encode())
        for name, value in headers.items()
    ]


def check_content(headers: Mapping[str, str]) -> None:
    """JSON in UTF-8 without a content encoding, else Rejected(UNSUPPORTED_ENCODING)."""
    if headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise Rejected(Reason.UNSUPPORTED_ENCODING, "Content-Encoding is not accepted.")
    if not _JSON.fullmatch(headers.get("content-type", "application/json").strip()):
        raise Rejected(Reason.UNSUPPORTED_ENCODING, "Content-Type must be application/json.")


def request_id(headers: Mapping[str, str], call_id: str) -> str:
    """The caller's own id when it is one, else the call id."""
    wished = headers.get("x-request-id") or headers.get("x-client-request-id") or ""
    return wished if _REQUEST_ID.fullmatch(wished) else call_id


def to_replica(
    headers: Mapping[str, str], call_id: str, accept: str = EVENT_STREAM
) -> dict[str, str]:
    """What one attempt sends; the upstream adds its own key and connection headers. ``accept``:
    the media type in which the replica must answer."""
    passed = {name: headers[name] for name in TO_REPLICA if name in headers}
    return {
        **passed,
        "content-type": JSON,
        "accept": accept,
        "accept-encoding": "identity",
        "x-request-id": call_id,
    }


def from_replica(headers: Mapping[str, str]) -> dict[str, str]:
    lowered = {name.lower(): value for name, value in headers.items()}
    return {name: lowered[name] for name in FROM_REPLICA if name in lowered}


def call_headers(labels: CallLabels) -> dict[str, str]:
    headers = {"x-fairway-call-id": labels.call_id, "x-request-id": labels.request_id}
    if labels.klass is not None:
        headers["x-fairway-class"] = label_of(labels.klass)
    if labels.replica is not None:
        headers["x-fairway-replica"] = labels.replica
    if labels.cache is not None:
        headers["x-fairway-cache"] = labels.cache
    if labels.queue_s is not None:
        headers["x-fairway-queue-ms"] = str(round(labels.queue_s * 1000))
    if labels.prefix_hit_ratio is not None:
        headers["x-fairway-prefix-hit"] = f"{labels.prefix_hit_ratio:.3f}"
    return headers


def ratelimit_headers(buckets: Sequence[BucketState]) -> dict[str, str]:
    """Of the bucket of each kind that will refuse first: the one with least left."""
    headers: dict[str, str] = {}
    for unit, meters in (("requests", REQUEST_METERS), ("tokens", TOKEN_METERS)):
        bucket = tightest(buckets, meters)
        if bucket is not None:
            headers[f"x-ratelimit-limit-{unit}"] = str(int(bucket.limit))
            headers[f"x-ratelimit-remaining-{unit}"] = str(int(bucket.remaining))
            headers[f"x-ratelimit-reset-{unit}"] = go_duration(bucket.full_again_s)
    return headers


def tightest(buckets: Sequence[BucketState], meters: Container[str]) -> BucketState | None:
    """Of those with one of these meters, the one with least left."""
    found, least = None, 0.0
    for bucket in buckets:
        if bucket.key.meter in meters:
            remaining = bucket.remaining
            if found is None or remaining < least:
                found, least = bucket, remaining
    return found
