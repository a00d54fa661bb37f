"""How many calls may a replica run at once, found out while it runs?

The configured number of slots is what somebody believed. Too many, and calls wait inside the engine
or decode slowly; too few, and the hardware idles. Per replica, one window after the other, at least
2 s and 10 samples long (a sample: a call that began or ended):

  congested  median TTFT residual (TTFT - the prefill-time model, ``prefill_time``) above half the
             interactive objective or above the prediction itself, KV cache above 0.95, an engine
             preemption, a 429, more than 4 calls waiting inside it           -> limit * 0.9
  slow       TPOT (95th percentile) above 0.97 of its objective: limit * objective / TPOT, which
             decode-bound engines follow closely; between 0.5 and 0.97 of the limit
  failing    5xx or timeouts, more than 5 % of what ended, and not a single one among others
                                                                              -> limit * 0.5
  used       none of these, TPOT below 0.92 of its objective, and in flight >= 0.8 * limit at some
             moment                -> limit + 1, or doubled before the first congestion ever
             and, after failures, up to half of what the limit was before them

Between 0.92 and 0.97 of the TPOT objective the limit rests. Where there is such an objective it is
doubled only when answers that were given under the present limit have been measured.

Why TPOT: from 128 to 256 slots an engine gives 3 % more tokens at three times the time between
them, and TTFT does not see it. So the limit grows above the configured slots only in a pool that
has a TPOT objective, up to ``most_slots``, and never on a replica whose slots are a fixed number of
places that it reports (llama.cpp). What any other replica can run at once shows in its samples: the
calls beyond it wait inside.

Calls that were dispatched before the last change say nothing about it: they do not count, so one
congestion is answered once. No probing dips: the limit falls on evidence only, and a window without
enough samples decides nothing, neither down nor up. A failing replica never climbs, since a window
in which calls fail never counts as used. One that has failed gets back soon what it can use: calls
that hang now and then hold slots, and at the floor they would hold all.

Invariants: least(4, configured) <= limit <= most (configured, or ``most_slots``); without
samples the limit stands still; every decrease can be climbed out of. Units: slots, seconds.
Source: AIMD (Chiu and Jain 1989); the windowed minimum-latency rule of concurrency limiters (TCP
Vegas, Netflix concurrency-limits) with the load-dependent part of TTFT predicted instead of
ignored.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gateway.core.dispatch.effects import Failure, PoolConfig
from gateway.core.dispatch.prefill_time import PrefillTime
from gateway.core.priority import PriorityClass

WINDOW_S = 2.0
LEAST_SAMPLES = 10
LEAST_SLOTS = 4
USED_RATIO = 0.8
CONGESTED_FACTOR = 0.9
FAILING_FACTOR = 0.5
FAILING_RATIO = 0.05
FULL_KV_RATIO = 0.95
SLOW_RATIO = 0.97
SPARE_RATIO = 0.92


@dataclass(slots=True)
class _Window:
    began_s: float
    residuals: list[tuple[float, float]] = field(default_factory=list)  # (seconds, predicted)
    tpots_s: list[float] = field(default_factory=list)
    ended: int = 0
    full: int = 0
    errors: int = 0
    used: bool = False
    kv_ratio: float = 0.0
    preempted: bool = False
    waiting: bool = False

    @property
    def samples(self) -> int:
        return len(self.residuals) + self.ended


class SlotLimit:
    """Of one replica. ``limit`` is in force."""

    def __init__(self, config: PoolConfig, configured: int, now_s: float) -> None:
        self.config = config
        self.limit = configured
        self.why = "as configured"
        self._configured = configured
        self._fixed = False
        self._doubling = True
        self._regains = 0  # after failures it doubles up to here
        self._changed_s = now_s
        self._prefill = PrefillTime()
        self._preemptions: int | None = None
        self._window = _Window(now_s)

    @property
    def most(self) -> int:
        if self._fixed or self.config.tpot_objective_s is None:
            return self._configured
        return max(self._configured, self.config.most_slots)

    @property
    def least(self) -> int:
        return min(LEAST_SLOTS, self._configured)

    def configured(self, slots: int, *, fixed: bool = False) -> None:
        """When the operator's number changed: begin anew. ``fixed``: the replica has so many."""
        self._fixed = fixed
        if slots != self._configured:
            self._configured = self.limit = slots
            self._doubling, self._regains = True, 0
        self.limit = min(self.limit, self.most)

    def in_flight(self, calls: int) -> None:
        if calls >= USED_RATIO * self.limit:
            self._window.used = True

    def began(self, dispatched_s: float, now_s: float, *, prompt_tokens: int, alone: bool) -> None:
        """First event of a call. ``prompt_tokens``: its own and those unstarted before it;
        ``alone``: nothing was unstarted when it was dispatched."""
        ttft_s = now_s - dispatched_s
        predicted_s = self._prefill.predicted_s(prompt_tokens)
        if alone:
            self._prefill.learn(prompt_tokens, ttft_s)
        if predicted_s is not None and dispatched_s >= self._changed_s:
            self._window.residuals.append((ttft_s - predicted_s, predicted_s))
        if now_s >= self._window.began_s + WINDOW_S:
            self._close(now_s)

    def ended(
        self, dispatched_s: float, now_s: float, *, tpot_s: float | None, failure: Failure | None
    ) -> None:
        if dispatched_s >= self._changed_s:
            window = self._window
            window.ended += 1
            window.full += failure is Failure.FULL
            window.errors += failure is Failure.ERROR
            if tpot_s is not None:
                window.tpots_s.append(tpot_s)
        if now_s >= self._window.began_s + WINDOW_S:
            self._close(now_s)

    def sampled(
        self, kv_ratio: float | None, preemptions: int | None, waiting: int | None = None
    ) -> None:
        """Telemetry. None: not reported. ``preemptions``: by the engine, since its start;
        ``waiting``: calls inside it."""
        if waiting is not None and waiting > self.config.brake_waiting_calls:
            self._window.waiting = True
        self._window.kv_ratio = max(self._window.kv_ratio, kv_ratio or 0.0)
        if preemptions is not None:
            if self._preemptions is not None and preemptions > self._preemptions:
                self._window.preempted = True
            self._preemptions = preemptions

    def _close(self, now_s: float) -> None:
        window = self._window
        failing = _failing(window)
        if window.samples < LEAST_SAMPLES and not failing:
            return
        tpot_ratio = self._tpot_ratio(window)
        if failing:
            regains = max(self._regains, int(self.limit * FAILING_FACTOR))
            self._lower(FAILING_FACTOR, "calls fail", now_s)
            self._regains = regains
        elif (why := self._congested(window)) is not None:
            self._lower(CONGESTED_FACTOR, why, now_s)
        elif tpot_ratio is not None and tpot_ratio > SLOW_RATIO:
            factor = max(FAILING_FACTOR, SLOW_RATIO / tpot_ratio)
            self._lower(factor, "time per output token is above its objective", now_s)
        elif window.used and self._may_grow(tpot_ratio):
            self._raise(now_s)
        elif self._waits_for_answers(tpot_ratio):
            return  # the window stays open
        self._window = _Window(now_s)

    def _may_grow(self, tpot_ratio: float | None) -> bool:
        if self.limit >= self.most or self._waits_for_answers(tpot_ratio):
            return False
        return tpot_ratio is None or tpot_ratio < SPARE_RATIO

    def _waits_for_answers(self, tpot_ratio: float | None) -> bool:
        return self._doubling and self.config.tpot_objective_s is not None and tpot_ratio is None

    def _tpot_ratio(self, window: _Window) -> float | None:
        """95th percentile / objective. None: no objective, or not enough answers."""
        objective_s = self.config.tpot_objective_s
        if objective_s is None or len(window.tpots_s) < LEAST_SAMPLES:
            return None
        return sorted(window.tpots_s)[int(0.95 * (len(window.tpots_s) - 1))] / objective_s

    def _raise(self, now_s: float) -> None:
        raised = self.limit + 1
        if self._doubling or self.limit < self._regains:
            raised = min(2 * self.limit, self.most if self._doubling else self._regains)
            self._changed_s = now_s
        self.limit, self.why = min(self.most, raised), "used and not congested"

    def _congested(self, window: _Window) -> str | None:
        if window.full:
            return "the replica says that it is full"
        if window.preempted or window.kv_ratio > FULL_KV_RATIO:
            return "its KV cache is full"
        if window.waiting:
            return "calls wait inside it"
        if len(window.residuals) >= LEAST_SAMPLES:
            residual_s, predicted_s = sorted(window.residuals)[len(window.residuals) // 2]
            if residual_s > max(predicted_s, self._tolerated_s()):
                return "first tokens come later than prefill explains"
        return None

    def _tolerated_s(self) -> float:
        return self.config.ttft_objective_s[PriorityClass.INTERACTIVE] / 2

    def _lower(self, factor: float, why: str, now_s: float) -> None:
        self.limit = max(self.least, min(self.limit - 1, int(self.limit * factor)))
        self.why = why
        self._doubling, self._regains = False, 0
        self._changed_s = now_s


def _failing(window: _Window) -> bool:
    """A single failure counts only where hardly anything else ended."""
    several = window.errors > 1 or 2 * window.errors > window.ended
    return several and window.errors > FAILING_RATIO * window.ended
