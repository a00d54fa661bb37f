"""What differs between kinds of inference servers, as values.

Absent is not 0: a metric that a kind does not report has no names here and is ``None`` everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

TEXT_ENDPOINTS: Final = frozenset({"chat/completions", "completions"})
EVERY_ENDPOINT: Final = TEXT_ENDPOINTS | {
    "embeddings",
    "responses",
    "messages",
    "messages/count_tokens",
    "responses/input_tokens",
}


class Sharing(StrEnum):
    """What a prefix-cache match is worth on the replica."""

    BLOCKS = "blocks"  # full blocks, shared among running sequences
    PER_SLOT = "per_slot"  # one prefix per slot, warm only while that slot is idle
    UNKNOWN = "unknown"


class Priority(StrEnum):
    """How the request field ``priority`` is understood, where it is."""

    IGNORED = "ignored"
    LOWER_FIRST = "lower_first"
    HIGHER_FIRST = "higher_first"


@dataclass(frozen=True, slots=True)
class MetricNames:
    """Sample names in the Prometheus text, the current name first, then its older aliases."""

    running: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    kv_ratio: tuple[str, ...] = ()
    preemptions: tuple[str, ...] = ()  # a counter
    prompt_tokens: tuple[str, ...] = ()  # a counter: when it falls, the server has restarted


@dataclass(frozen=True, slots=True)
class Adapter:
    """One kind of server. Paths are absolute; ``endpoints`` are the dialect endpoints it can
    serve."""

    kind: str
    title: str
    health_path: str = "/health"
    models_path: str = "/v1/models"
    metrics_path: str | None = None
    template_path: str | None = None  # renders messages and tools, as text or as token ids
    metrics: MetricNames = field(default_factory=MetricNames)
    endpoints: frozenset[str] = TEXT_ENDPOINTS
    body_extras: Mapping[str, object] = field(default_factory=dict)  # into every body
    needs_max_tokens: bool = False  # generates to the end of its context when none is given
    closes_after_stream: bool = False  # announces keep-alive, yet closes the socket after a stream
    done_marker: bool = True  # ends a complete stream with [DONE]
    sharing: Sharing = Sharing.UNKNOWN
    cache_salt: bool = False  # understands the request field cache_salt
    priority: Priority = Priority.IGNORED
