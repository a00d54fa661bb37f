"""A pool under open load, in virtual time: the real dispatcher, replicas of the overload rows.

Reference load "1x": 2 replicas * 6 slots, 100 ms to the first token, 20 tokens 10 ms apart: 40
calls/s of capacity; 40 % interactive, 30 % standard, 30 % batch, each class from several tenants.
Arrivals are Poisson; callers that are refused may come back when told (``returning``), 0 to 20 %
later, at most twice. A call is good when it completes with its TTFT and TPOT within objectives
(batch: when it completes).
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import msgspec

from gateway.core.dispatch.dispatcher import Dispatcher
from gateway.core.dispatch.effects import (
    Effect,
    Grant,
    PoolConfig,
    Preempt,
    Refuse,
    ReplicaConfig,
    Ticket,
    Usage,
)
from gateway.core.priority import PriorityClass
from gateway.core.reasons import Reason

INTERACTIVE, STANDARD, BATCH = PriorityClass
CAPACITY = 40.0  # calls per second
FIRST_TOKEN_S = 0.1
TOKEN_S = 0.01
INPUT_TOKENS, OUTPUT_TOKENS = 100, 20
MIX = ((INTERACTIVE, 0.4), (STANDARD, 0.3), (BATCH, 0.3))
ONLY_INTERACTIVE = ((INTERACTIVE, 1.0),)
TENANTS = 5
OBJECTIVE_S = (2.0, 10.0, float("inf"))


@dataclass(slots=True)
class OneCall:
    ticket: Ticket
    arrived_s: float
    returns: int = 0
    ttft_s: float | None = None
    ended_s: float | None = None
    refused: Refuse | None = None
    good: bool = False

    @property
    def klass(self) -> PriorityClass:
        return self.ticket.klass


@dataclass(slots=True)
class Outcome:
    """What happened to every arrival; a return is an arrival of its own."""

    calls: list[OneCall] = field(default_factory=list)
    preempted: int = 0
    batch_when_shed: list[int] = field(default_factory=list)  # in flight above its minimum

    def of(self, klass: PriorityClass, from_s: float = 0.0) -> list[OneCall]:
        return [call for call in self.calls if call.klass is klass and call.arrived_s >= from_s]

    def good_per_s(self, from_s: float, to_s: float) -> float:
        ended = [call for call in self.calls if call.good and from_s <= (call.ended_s or 0) < to_s]
        return len(ended) / (to_s - from_s)

    def ttft_s(self, klass: PriorityClass, part: float, from_s: float = 0.0) -> float:
        times = sorted(c.ttft_s for c in self.of(klass, from_s) if c.ttft_s is not None)
        return times[int(part * (len(times) - 1))] if times else float("nan")

    def refused(self, reason: Reason, klass: PriorityClass | None = None) -> int:
        return sum(
            call.refused is not None
            and call.refused.reason is reason
            and (klass is None or call.klass is klass)
            for call in self.calls
        )


class OverloadModel:
    """``rate``: offered calls per second at a time. ``returning``: refused callers come back."""

    def __init__(
        self,
        rate: Callable[[float], float],
        *,
        mix: tuple[tuple[PriorityClass, float], ...] = MIX,
        seed: int = 11,
        returning: bool = False,
        **changes: Any,
    ) -> None:
        config = PoolConfig(tuple(ReplicaConfig(f"r{index}", 6) for index in range(2)), {})
        self.pool = Dispatcher("pool", replace(config, **changes), random.Random(seed), 0.0)
        self.outcome = Outcome()
        self._rate, self._mix, self._returning = rate, mix, returning
        self._rng = random.Random(seed + 1)
        self._events: list[tuple[float, int, str, Any]] = []
        self._order = count()
        self._waiting: dict[str, OneCall] = {}
        self._running: dict[int, OneCall] = {}
        self._at(0.0, "next", None)

    def run_until(self, end_s: float) -> Outcome:
        while True:
            wake_s = self.pool.next_wake
            next_s = self._events[0][0] if self._events else end_s
            if wake_s is not None and wake_s <= min(next_s, end_s):
                self._carry_out(self.pool.wake(wake_s), wake_s)
                continue
            if next_s >= end_s:
                return self.outcome
            now_s, _, what, about = heapq.heappop(self._events)
            getattr(self, f"_{what}")(about, now_s)

    # Events

    def _next(self, _: None, now_s: float) -> None:
        rate = self._rate(now_s)
        if rate > 0:
            self._arrive(OneCall(self._ticket(now_s), now_s), now_s)
        self._at(now_s + self._rng.expovariate(rate or 10.0), "next", None)

    def _arrive(self, call: OneCall, now_s: float) -> None:
        self.outcome.calls.append(call)
        self._waiting[call.ticket.call_id] = call
        self._carry_out(self.pool.submit(call.ticket, now_s), now_s)

    def _begin(self, grant_id: int, now_s: float) -> None:
        if grant_id in self._running:
            call = self._running[grant_id]
            call.ttft_s = now_s - call.arrived_s
            self._carry_out(self.pool.first_event(grant_id, now_s), now_s)

    def _end(self, grant_id: int, now_s: float) -> None:
        call = self._running.pop(grant_id, None)
        if call is None:
            return
        call.ended_s = now_s
        call.good = (call.ttft_s or 0.0) <= OBJECTIVE_S[call.klass]
        usage = Usage(INPUT_TOKENS, 0, OUTPUT_TOKENS)
        self._carry_out(self.pool.release(grant_id, usage, now_s), now_s)

    def _give_back(self, grant_id: int, now_s: float) -> None:
        call = self._running.pop(grant_id, None)
        if call is None:
            return
        call.ttft_s = None
        self.outcome.preempted += 1
        self._carry_out(self.pool.release(grant_id, None, now_s, refund=True), now_s)
        more = call.ticket.preemptions + 1
        call.ticket = msgspec.structs.replace(call.ticket, again=True, preemptions=more)
        self._waiting[call.ticket.call_id] = call
        self._carry_out(self.pool.submit(call.ticket, now_s), now_s)

    # Steps

    def _carry_out(self, effects: list[Effect], now_s: float) -> None:
        for effect in effects:
            if isinstance(effect, Preempt):
                self._at(now_s, "give_back", effect.grant_id)
                continue
            call = self._waiting.pop(effect.call_id)
            if isinstance(effect, Grant):
                self._running[effect.grant_id] = call
                self._at(now_s + FIRST_TOKEN_S, "begin", effect.grant_id)
                ends_s = now_s + FIRST_TOKEN_S + (OUTPUT_TOKENS - 1) * TOKEN_S
                self._at(ends_s, "end", effect.grant_id)
            else:
                self._refuse(call, effect, now_s)

    def _refuse(self, call: OneCall, refuse: Refuse, now_s: float) -> None:
        call.refused = refuse
        if refuse.reason is Reason.SHED and call.klass is INTERACTIVE:
            self.outcome.batch_when_shed.append(self.pool._running._strict_batch)
        told_s = refuse.retry_after_s
        if self._returning and told_s is not None and call.returns < 2:
            later_s = told_s * self._rng.uniform(1.0, 1.2)
            if later_s <= 60.0:  # above it the caller is told not to retry
                count_ = call.returns + 1
                again = msgspec.structs.replace(
                    call.ticket,
                    call_id=f"{call.ticket.call_id}+",
                    arrived_s=now_s + later_s,
                    deadline_s=now_s + later_s + 600.0,
                    retry_count=count_,
                )
                self._at(now_s + later_s, "arrive", OneCall(again, now_s + later_s, count_))

    def _at(self, time_s: float, what: str, about: Any) -> None:
        heapq.heappush(self._events, (time_s, next(self._order), what, about))

    def _ticket(self, now_s: float) -> Ticket:
        klass = self._rng.choices([k for k, _ in self._mix], [w for _, w in self._mix])[0]
        number = next(self._order)
        return Ticket(
            call_id=f"c{number}",
            tenant=f"t{self._rng.randrange(TENANTS)}",
            key_id="k",
            klass=klass,
            arrived_s=now_s,
            deadline_s=now_s + 600.0,
            input_tokens=INPUT_TOKENS,
            output_tokens=OUTPUT_TOKENS,
            body_bytes=1_000,
            prompt_hash=number,
        )
