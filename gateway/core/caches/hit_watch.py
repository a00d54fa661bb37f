"""Does a replica hold what we think it holds?

Compares, call by call, the cached tokens that the index predicted with those that the replica
reported. A replica that reports much less than predicted over many calls drops prompts earlier than
its modelled size says: the model shrinks by a fifth, and the count begins anew.

A replica that has never reported a cached token says nothing by reporting none: many servers do not
report at all. Units: tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

CALLS = 20  # with a predicted hit, before a verdict
TOO_LITTLE = 0.8
SHRINK = 0.8


@dataclass(slots=True)
class HitWatch:
    """``predicted_tokens`` and ``reported_tokens``: in all."""

    predicted_tokens: int = 0
    reported_tokens: int = 0
    size_ratio: float = 1.0  # of the modelled capacity, as corrected
    _calls: int = 0
    _predicted: int = 0
    _reported: int = 0

    def ended(self, predicted: int, reported: int) -> None:
        self.predicted_tokens += predicted
        self.reported_tokens += reported
        if not predicted or not self.reported_tokens:
            return
        self._calls += 1
        self._predicted += predicted
        self._reported += min(predicted, reported)
        if self._calls < CALLS:
            return
        if self._reported < TOO_LITTLE * self._predicted:
            self.size_ratio *= SHRINK
        self._calls = self._predicted = self._reported = 0

    def restarted(self) -> None:
        """What was learned belongs to the process that is gone."""
        self.size_ratio = 1.0
        self._calls = self._predicted = self._reported = 0
