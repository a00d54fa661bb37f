"""The answer is one piece already: it goes to the caller as it came."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.wire.dialect import Frame


class EmbeddingsAggregator:
    """Implements Aggregator. The API has no place for a service tier in its answer."""

    def __init__(self) -> None:
        self._answer = b""

    def repeat(self, texts: Sequence[str], size_bytes: int) -> bool:
        return False

    def feed(self, frame: Frame) -> None:
        self._answer = frame.raw

    def result(self, *, service_tier: str | None = None) -> bytes:
        return self._answer
