"""One replica with the chunked engine model, always more calls than slots: what does a slot limit
yield? The real dispatcher in virtual time."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from gateway.core.dispatch.dispatcher import Dispatcher
from gateway.core.dispatch.effects import (
    Effect,
    Grant,
    PoolConfig,
    ReplicaConfig,
    Ticket,
    Usage,
)
from gateway.core.priority import PriorityClass
from gateway.simulation.engine import Engine, EngineConfig, EngineRequest

BACKLOG = 300


@dataclass(slots=True)
class Answered:
    ended_s: float
    tokens: int
    tpot_s: float


@dataclass(slots=True)
class _Call:
    prompt_tokens: int
    output_tokens: int
    grant_id: int = 0
    first_s: float = 0.0


class SlotsModel:
    """``slots``: as configured. ``changes``: of the pool's configuration."""

    def __init__(self, slots: int, *, seed: int = 11, **changes: Any) -> None:
        self.answered: list[Answered] = []
        self.limits: list[int] = []  # after each answer
        self._rng = random.Random(seed)
        self._engine = Engine(EngineConfig(sequences=512, step_tokens=2_048))
        config = PoolConfig((ReplicaConfig("r0", slots, kv_tokens=427_000),), {})
        config = replace(config, shed_wait_ratio=0.0, wait_limit_s=(1e9, 1e9, 1e9), **changes)
        self.pool = Dispatcher("pool", config, random.Random(seed), 0.0)
        self._numbers = count()
        self._waiting: dict[str, _Call] = {}
        self._running: dict[str, _Call] = {}

    def run_until(self, end_s: float) -> SlotsModel:
        now_s = 0.0
        for _ in range(BACKLOG):
            self._ask(now_s)
        while now_s < end_s:
            ended_s = self._engine.begin(now_s)
            assert ended_s is not None
            now_s = ended_s
            for emitted in self._engine.complete():
                self._token(emitted.request_id, emitted.number, now_s, last=emitted.last)
        return self

    def goodput_tps(self, from_s: float, to_s: float, tpot_s: float) -> float:
        """Tokens of answers within the objective, per second."""
        ended = [each for each in self.answered if from_s <= each.ended_s < to_s]
        return sum(each.tokens for each in ended if each.tpot_s <= tpot_s) / (to_s - from_s)

    def tpot_s(self, part: float, from_s: float) -> float:
        times = sorted(each.tpot_s for each in self.answered if each.ended_s >= from_s)
        return times[int(part * (len(times) - 1))]

    def _ask(self, now_s: float) -> None:
        call = _Call(self._rng.randrange(100, 300), self._rng.randrange(96, 160))
        ticket = Ticket(
            f"c{next(self._numbers)}",
            "tenant",
            "key",
            PriorityClass.INTERACTIVE,
            now_s,
            1e9,
            call.prompt_tokens,
            128,
            0,
        )
        self._waiting[ticket.call_id] = call
        self._carry_out(self.pool.submit(ticket, now_s))

    def _token(self, request_id: str, number: int, now_s: float, *, last: bool) -> None:
        call = self._running[request_id]
        if number == 1:
            call.first_s = now_s
            self._carry_out(self.pool.first_event(call.grant_id, now_s))
        if last:
            del self._running[request_id]
            tpot_s = (now_s - call.first_s) / (call.output_tokens - 1)
            self.answered.append(Answered(now_s, call.output_tokens, tpot_s))
            usage = Usage(call.prompt_tokens, 0, call.output_tokens)
            self._carry_out(self.pool.release(call.grant_id, usage, now_s))
            self.limits.append(self.pool.view().replica_slots["r0"])
            self._ask(now_s)

    def _carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            assert isinstance(effect, Grant)
            call = self._waiting.pop(effect.call_id)
            call.grant_id = effect.grant_id
            self._running[effect.call_id] = call
            request = EngineRequest(effect.call_id, call.prompt_tokens, call.output_tokens)
            assert self._engine.submit(request)
