"""How long does this replica take to the first token of a prompt, if nothing else is in its way?

    time = floor + tokens / rate

fitted online by least squares over calls that were dispatched with nothing unstarted before them,
older ones fading (half their weight after about 70). A call that took more than twice what was
predicted had something in its way and does not enter the fit; instead the whole prediction grows by
2 %, so that a replica that became slower for good is believed after some tens of calls, and one
that recovered, at its first fast call.

Invariants: with fewer than ``LEAST_SAMPLES`` there is no prediction (None); it is never negative.
Units: seconds, tokens.
"""

from __future__ import annotations

LEAST_SAMPLES = 10
_FADE = 0.99
_OUTLIER = 2.0
_DRIFT = 1.02
_LEAST_S = 0.02


class PrefillTime:
    def __init__(self) -> None:
        self._samples = 0
        self._weight = self._x = self._y = self._xx = self._xy = 0.0
        self._scale = 1.0

    def predicted_s(self, tokens: int) -> float | None:
        if self._samples < LEAST_SAMPLES:
            return None
        spread = self._weight * self._xx - self._x * self._x
        slope = 0.0
        if spread > 1e-6 * self._xx * self._weight:
            slope = max(0.0, (self._weight * self._xy - self._x * self._y) / spread)
        floor_s = (self._y - slope * self._x) / self._weight
        return max(_LEAST_S, floor_s + slope * tokens) * self._scale

    def learn(self, tokens: int, time_s: float) -> None:
        predicted_s = self.predicted_s(tokens)
        if predicted_s is not None and time_s > _OUTLIER * predicted_s:
            self._scale *= _DRIFT
            return
        if predicted_s is not None and time_s < predicted_s:
            self._scale = max(1.0, self._scale / _DRIFT)
        self._samples += 1
        self._weight = _FADE * self._weight + 1.0
        self._x = _FADE * self._x + tokens
        self._y = _FADE * self._y + time_s
        self._xx = _FADE * self._xx + tokens * tokens
        self._xy = _FADE * self._xy + tokens * time_s
