"""How fast does a replica read prompts when nothing else is in its way?

A call that was dispatched with nothing unstarted before it waits for its own prompt only: its
uncached prompt tokens divided by its time to the first event, less the shortest such time ever seen
(network, template, one step), is a rate. The largest of the last one to two minutes counts, since
everything that disturbs makes the rate smaller. 10,000 tokens/s until something was measured.

Prompts below 256 uncached tokens say nothing about the rate.

The rate alone underestimates long prompts: n new tokens behind c cached ones need attention over
n * (2c + n) / 2 pairs. So the time of a prompt is predicted by least squares over the same calls,
older ones fading,

    prefill_s = tokens * a + pairs * b        a, b >= 0

by that of the whole pool while the replica has had fewer than fifty of them, and by the rate alone
while the pool has: a replica that is never idle would otherwise never be known, and look cheap.

Units: tokens, seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field

START_TPS = 10_000.0
WINDOW_S = 60.0
LEAST_TOKENS = 256
MOST_TPS = 1e6
LEAST_SAMPLES = 50
FADE = 0.99
CLEAR_RATIO = 5.0  # a time nearer to the floor leaves its error in the difference


def pairs_of(uncached_tokens: float, cached_tokens: float) -> float:
    return uncached_tokens * (2 * cached_tokens + uncached_tokens) / 2


@dataclass(slots=True)
class PrefillFit:
    """Faded sums of products of tokens (n), pairs (p) and seconds (y). ``coefficients``: seconds
    per token and per pair; None: too few samples, or too much alike."""

    samples: int = 0
    coefficients: tuple[float, float] | None = None
    _nn: float = 0.0
    _np: float = 0.0
    _pp: float = 0.0
    _ny: float = 0.0
    _py: float = 0.0

    def learn(self, tokens: float, pairs: float, time_s: float) -> None:
        self.samples += 1
        self._nn = FADE * self._nn + tokens * tokens
        self._np = FADE * self._np + tokens * pairs
        self._pp = FADE * self._pp + pairs * pairs
        self._ny = FADE * self._ny + tokens * time_s
        self._py = FADE * self._py + pairs * time_s
        self.coefficients = self._solved()

    def _solved(self) -> tuple[float, float] | None:
        if self.samples < LEAST_SAMPLES:
            return None
        spread = self._nn * self._pp - self._np * self._np
        if spread > 1e-3 * self._nn * self._pp:
            per_token_s = (self._ny * self._pp - self._py * self._np) / spread
            per_pair_s = (self._py * self._nn - self._ny * self._np) / spread
            if per_token_s > 0 and per_pair_s >= 0:
                return per_token_s, per_pair_s
        return None


@dataclass(slots=True)
class PeakRate:
    tps: float = START_TPS
    _floor_s: float = float("inf")
    _window_s: float = 0.0  # when the present window began
    _now_tps: float = 0.0
    _before_tps: float = 0.0

    _fit: PrefillFit = field(default_factory=PrefillFit)

    def prefill_s(self, uncached_tokens: float, cached_tokens: float, of_pool: PrefillFit) -> float:
        """``of_pool``: of all its replicas, where this one has had too few calls alone."""
        fitted = self._fit.coefficients or of_pool.coefficients
        if fitted is None:
            return uncached_tokens / self.tps
        per_token_s, per_pair_s = fitted
        pairs = pairs_of(uncached_tokens, cached_tokens)
        return uncached_tokens * per_token_s + pairs * per_pair_s

    def started(
        self, uncached_tokens: int, ttft_s: float, now_s: float, cached_tokens: int = 0
    ) -> tuple[float, float, float] | None:
        """A call that found nothing unstarted had its first event ``ttft_s`` after dispatch. The
        sample of tokens, pairs and seconds, for the fit of the pool; None: too short a prompt."""
        self._floor_s = min(self._floor_s, ttft_s)
        if now_s - self._window_s > WINDOW_S and self._now_tps:
            self._before_tps, self._now_tps, self._window_s = self._now_tps, 0.0, now_s
            self.tps = self._before_tps
        beyond_floor_s = ttft_s - self._floor_s
        if uncached_tokens < LEAST_TOKENS:
            return None
        sample = uncached_tokens, pairs_of(uncached_tokens, cached_tokens), beyond_floor_s
        self._fit.learn(*sample)
        if beyond_floor_s > CLEAR_RATIO * self._floor_s:
            self._now_tps = max(self._now_tps, min(MOST_TPS, uncached_tokens / beyond_floor_s))
            self.tps = max(self._now_tps, self._before_tps)
        return sample
