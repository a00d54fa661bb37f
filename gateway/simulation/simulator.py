"""What would happen if these clients met this gateway in front of these engines?

A discrete-event simulation: one heap of events in order of time (equal times in the order in which
they were planned), no clock and no thread. The gateway is the product's own dispatcher behind
``Front``; its effects are carried out here as ``gateway.pipeline`` does in reality: a grant sends
the request to the engine, a refusal tells the client, a preemption cancels the request and asks
again.

  a call        arrives -> front.submit -> Grant: ``hop_s`` later in the engine's queue
  a token       the engine's step ends -> first_event (the first), progress, release (the last)
  telemetry     sampled every ``every_s`` and told ``age_s`` later, or never
  time itself   front.next_wake -> front.wake

The same arguments and seeds give the same run, event by event. Units: seconds, tokens. Not
modelled: the CPU time of the gateway, failures, the network beyond one delay from gateway to
engine.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count

from gateway.core.dispatch.effects import Effect, Grant, Preempt, Refuse, ReplicaTelemetry, Usage
from gateway.simulation.call import Outcome, SimulatedCall
from gateway.simulation.clients.workload import Workload
from gateway.simulation.engine import Emitted, EngineRequest
from gateway.simulation.engines.model import EngineModel
from gateway.simulation.front import Front

HOP_S = 0.002
_Event = tuple[float, int, Callable[..., None], object]


@dataclass(frozen=True, slots=True)
class TelemetryPlan:
    every_s: float = 1.0
    age_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Look:
    """The fleet at one moment, one figure per replica."""

    at_s: float
    running: tuple[int, ...]
    waiting: tuple[int, ...]  # in the engine's own queue
    kv_ratio: tuple[float, ...]


@dataclass(slots=True)
class Run:
    """``outcomes`` in order of arrival, open ones included. ``ended_s``: until when it was
    simulated."""

    outcomes: list[Outcome] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)
    ended_s: float = 0.0
    events: int = 0


@dataclass(slots=True, eq=False)
class _Granted:
    """One request in an engine, or on its way to one."""

    grant_id: int
    request_id: str
    outcome: Outcome
    started: bool = False


class Simulator:
    """``progress_every``: the gateway hears of every so manieth token of a call."""

    def __init__(
        self,
        engines: Mapping[str, EngineModel],
        front: Front,
        workload: Workload,
        *,
        telemetry: TelemetryPlan | None = None,
        hop_s: float = HOP_S,
        progress_every: int = 16,
        look_every_s: float | None = None,
    ) -> None:
        self.run = Run()
        self._engines = engines
        self._front = front
        self._workload = workload
        self._telemetry = telemetry
        self._hop_s = hop_s
        self._progress_every = progress_every
        self._look_every_s = look_every_s
        self._events: list[_Event] = []
        self._order = count()
        self._wake_s: float | None = None
        self._waiting: dict[str, Outcome] = {}  # by call
        self._requests: dict[str, _Granted] = {}
        self._grants: dict[int, _Granted] = {}
        self._alive = 0  # calls that are planned, wait or run
        self._arrivals = workload.first()
        self._plan_next_first()
        if telemetry is not None:
            self._plan(0.0, self._sample, None)
        if look_every_s is not None:
            self._plan(0.0, self._look, None)

    def run_until(self, end_s: float, progress: Callable[[float], None] | None = None) -> Run:
        """Ends earlier when every call has ended and none is to come. ``progress`` is told the
        simulated time about a thousand times."""
        events, run, told_s = self._events, self.run, 0.0
        while self._alive and events and events[0][0] < end_s:
            now_s, _, happen, what = heapq.heappop(events)
            run.events += 1
            run.ended_s = now_s
            happen(what, now_s)
            self._plan_wake(now_s)
            if progress is not None and now_s >= told_s:
                told_s = now_s + end_s / 1000
                progress(now_s)
        if self._alive:
            run.ended_s = end_s
        return run

    # What happens

    def _first(self, call: SimulatedCall, now_s: float) -> None:
        self._plan_next_first()
        self._arrive(call, now_s)

    def _arrive(self, call: SimulatedCall, now_s: float) -> None:
        outcome = Outcome(call)
        self.run.outcomes.append(outcome)
        self._ask(outcome, now_s, again=False)

    def _reach(self, granted: _Granted, now_s: float) -> None:
        if granted.request_id not in self._requests:
            return  # taken back on the way
        slug, call = granted.outcome.replica, granted.outcome.call
        request = EngineRequest(
            granted.request_id,
            call.input_tokens,
            call.output_tokens,
            call.block_hashes,
            call.tenant,
        )
        if self._engines[slug].submit(request):
            self._keep_going(slug, now_s)
        else:
            del self._requests[granted.request_id]
            del self._grants[granted.grant_id]
            self._carry_out(self._front.release(granted.grant_id, None, now_s, refund=True), now_s)
            self._ask(granted.outcome, now_s, again=True)

    def _step_ended(self, slug: str, now_s: float) -> None:
        for emitted in self._engines[slug].complete():
            self._emitted(emitted, now_s)
        self._keep_going(slug, now_s)

    def _wake(self, planned_s: float, now_s: float) -> None:
        if planned_s == self._wake_s:
            self._wake_s = None
            self._carry_out(self._front.wake(now_s), now_s)

    def _sample(self, _: object, now_s: float) -> None:
        assert self._telemetry is not None
        for slug, engine in self._engines.items():
            sample = ReplicaTelemetry(slug, now_s, engine.running, engine.waiting, engine.kv_ratio)
            self._plan(now_s + self._telemetry.age_s, self._tell, sample)
        self._again_if_alive(now_s + self._telemetry.every_s, self._sample)

    def _tell(self, sample: ReplicaTelemetry, now_s: float) -> None:
        self._carry_out(self._front.telemetry(sample, now_s), now_s)

    def _look(self, _: object, now_s: float) -> None:
        assert self._look_every_s is not None
        engines = self._engines.values()
        self.run.looks.append(
            Look(
                now_s,
                tuple(engine.running for engine in engines),
                tuple(engine.waiting for engine in engines),
                tuple(engine.kv_ratio for engine in engines),
            )
        )
        self._again_if_alive(now_s + self._look_every_s, self._look)

    # Between gateway and engines

    def _ask(self, outcome: Outcome, now_s: float, *, again: bool) -> None:
        self._waiting[outcome.call.call_id] = outcome
        effects = self._front.submit(
            outcome.call, now_s, again=again, preemptions=outcome.preemptions
        )
        self._carry_out(effects, now_s)

    def _emitted(self, emitted: Emitted, now_s: float) -> None:
        granted = self._requests.get(emitted.request_id)
        if granted is None:
            return  # it ended while the step ran
        outcome = granted.outcome
        outcome.produced = emitted.number
        if not granted.started:
            granted.started = True
            if outcome.first_token_s is None:
                outcome.first_token_s = now_s
            outcome.cached_tokens = emitted.cached_tokens
            self._carry_out(self._front.first_event(granted.grant_id, now_s), now_s)
        if emitted.last:
            self._ended(granted, now_s)
        elif emitted.number % self._progress_every == 0:
            effects = self._front.progress(granted.grant_id, emitted.number, now_s)
            self._carry_out(effects, now_s)

    def _ended(self, granted: _Granted, now_s: float) -> None:
        outcome = granted.outcome
        outcome.ended_s = now_s
        del self._requests[granted.request_id]
        del self._grants[granted.grant_id]
        usage = Usage(outcome.call.input_tokens, outcome.cached_tokens, outcome.produced)
        self._carry_out(self._front.release(granted.grant_id, usage, now_s, refund=False), now_s)
        self._follow(outcome, now_s)

    def _carry_out(self, effects: list[Effect], now_s: float) -> None:
        for effect in effects:
            if isinstance(effect, Grant):
                self._grant(effect, now_s)
            elif isinstance(effect, Refuse):
                self._refuse(effect, now_s)
            else:
                self._preempt(effect, now_s)

    def _plan_wake(self, now_s: float) -> None:
        wake_s = self._front.next_wake
        if wake_s is not None and (self._wake_s is None or wake_s < self._wake_s):
            self._wake_s = wake_s
            self._plan(max(now_s, wake_s), self._wake, wake_s)

    def _grant(self, grant: Grant, now_s: float) -> None:
        outcome = self._waiting.pop(grant.call_id)
        outcome.replica, outcome.rule = grant.replica, grant.rule
        if outcome.dispatched_s is None:
            outcome.dispatched_s = now_s
        granted = _Granted(grant.grant_id, f"{grant.call_id}#{grant.grant_id}", outcome)
        self._grants[grant.grant_id] = granted
        self._requests[granted.request_id] = granted
        self._plan(now_s + self._hop_s, self._reach, granted)

    def _refuse(self, refusal: Refuse, now_s: float) -> None:
        outcome = self._waiting.pop(refusal.call_id)
        outcome.refused, outcome.refused_s = refusal.reason, now_s
        outcome.retry_after_s = refusal.retry_after_s
        self._follow(outcome, now_s)

    def _preempt(self, preemption: Preempt, now_s: float) -> None:
        """Nothing was relayed yet, so the client sees nothing of it. What was computed is lost."""
        granted = self._grants.pop(preemption.grant_id)
        del self._requests[granted.request_id]
        outcome = granted.outcome
        self._engines[outcome.replica].cancel(granted.request_id)
        outcome.preemptions += 1
        if granted.started:
            outcome.wasted_tokens += outcome.call.input_tokens - outcome.cached_tokens
            outcome.wasted_tokens += outcome.produced
        outcome.first_token_s, outcome.cached_tokens, outcome.produced = None, 0, 0
        self._carry_out(self._front.release(preemption.grant_id, None, now_s, refund=True), now_s)
        self._ask(outcome, now_s, again=True)

    # Plans

    def _keep_going(self, slug: str, now_s: float) -> None:
        engine = self._engines[slug]
        if not engine.in_step:
            ends_s = engine.begin(now_s)
            if ends_s is not None:
                self._plan(ends_s, self._step_ended, slug)

    def _follow(self, outcome: Outcome, now_s: float) -> None:
        self._alive -= 1
        for call in self._workload.after(outcome, now_s):
            assert call.at_s >= now_s
            self._alive += 1
            self._plan(call.at_s, self._arrive, call)

    def _plan_next_first(self) -> None:
        call = next(self._arrivals, None)
        if call is not None:
            self._alive += 1
            self._plan(call.at_s, self._first, call)

    def _again_if_alive(self, at_s: float, happen: Callable[..., None]) -> None:
        if self._alive:
            self._plan(at_s, happen, None)

    def _plan(self, at_s: float, happen: Callable[..., None], what: object) -> None:
        heapq.heappush(self._events, (at_s, next(self._order), happen, what))
