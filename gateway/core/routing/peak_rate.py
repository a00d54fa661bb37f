"""How fast does a replica read prompts when nothing else is in its way?

A call that was dispatched with nothing unstarted before it waits for its own prompt only: its
uncached prompt tokens divided by its time to the first event, less the shortest such time ever seen
(network, template, one step), is a rate. The largest of the last one to two minutes counts, since
everything that disturbs makes the rate smaller. 10,000 tokens/s until something was measured.

Prompts below 256 uncached tokens say nothing. Units: tokens per second.
"""

from __future__ import annotations

from dataclasses import dataclass

START_TPS = 10_000.0
WINDOW_S = 60.0
LEAST_TOKENS = 256
MOST_TPS = 1e6
CLEAR_RATIO = 0.5  # a time nearer to the floor leaves a difference of noise


@dataclass(slots=True)
class PeakRate:
    _floor_s: float = float("inf")
    _window_s: float = 0.0  # when the present window began
    _now_tps: float = 0.0
    _before_tps: float = 0.0

    @property
    def tps(self) -> float:
        return max(self._now_tps, self._before_tps) or START_TPS

    def started(self, uncached_tokens: int, ttft_s: float, now_s: float) -> None:
        """A call that found nothing unstarted had its first event ``ttft_s`` after dispatch."""
        self._floor_s = min(self._floor_s, ttft_s)
        if now_s - self._window_s > WINDOW_S and self._now_tps:
            self._before_tps, self._now_tps, self._window_s = self._now_tps, 0.0, now_s
        beyond_floor_s = ttft_s - self._floor_s
        if uncached_tokens < LEAST_TOKENS or beyond_floor_s <= CLEAR_RATIO * self._floor_s:
            return
        self._now_tps = max(self._now_tps, min(MOST_TPS, uncached_tokens / beyond_floor_s))
