"""A pool of replicas in virtual time, driven by the real dispatcher.

A call holds its slot for input/20,480 + 0.03 * output seconds, within 20 % at random. That is a
model of a replica whose slots do not slow each other down: good for who goes next, not for
throughput.
"""

from __future__ import annotations

import heapq
import random
from collections import defaultdict
from dataclasses import dataclass, field, replace
from itertools import count, pairwise
from typing import Any

from gateway.core.cost import service_cost
from gateway.core.dispatch.dispatcher import Dispatcher
from gateway.core.dispatch.effects import (
    Effect,
    Grant,
    PoolConfig,
    Refuse,
    ReplicaConfig,
    Ticket,
    Usage,
)
from gateway.core.priority import PriorityClass

PREFILL_TPS = 20_480.0
TOKEN_S = 0.03
NEVER_S = 1e9


@dataclass(frozen=True, slots=True)
class Flow:
    """One tenant's load: ``threads`` callers that each send the next call when the last one ended,
    or one call every ``every_s``."""

    tenant: str
    input_tokens: int
    output_tokens: int
    threads: int = 0
    every_s: float | None = None
    weight: float = 1.0
    expected_output: int | None = None  # None: the estimate is right
    starts_s: float = 0.0
    ends_s: float = NEVER_S
    eligible: frozenset[str] | None = None
    klass: PriorityClass = PriorityClass.STANDARD

    @property
    def cost(self) -> float:
        return service_cost(self.input_tokens, 0, self.output_tokens)

    @property
    def backlogged(self) -> bool:
        return self.threads > 0


@dataclass(frozen=True, slots=True)
class Served:
    tenant: str
    replica: str
    queued_s: float
    dispatched_s: float
    cost: float
    started_s: float = 0.0
    ended_s: float = 0.0
    tokens: int = 0


@dataclass(slots=True)
class Run:
    """What happened. Service counts at dispatch, at its true cost."""

    calls: list[Served] = field(default_factory=list)
    refused: list[Refuse] = field(default_factory=list)

    def service(self, from_s: float, to_s: float) -> dict[str, float]:
        totals: dict[str, float] = defaultdict(float)
        for call in self.calls:
            if from_s <= call.dispatched_s < to_s:
                totals[call.tenant] += call.cost
        return totals

    def longest_gap_s(self, tenant: str, from_s: float, to_s: float) -> float:
        """Longest time in which ``tenant`` was given nothing."""
        times = [call.dispatched_s for call in self.calls if call.tenant == tenant]
        inside = [from_s, *(time_s for time_s in times if from_s <= time_s <= to_s), to_s]
        return max(later - earlier for earlier, later in pairwise(inside))

    def most_tokens(self, tenant: str, from_s: float) -> int:
        """Most tokens that ``tenant`` had in flight at once."""
        calls = [c for c in self.calls if c.tenant == tenant and c.dispatched_s >= from_s]
        return max(
            sum(c.tokens for c in calls if c.dispatched_s <= at.dispatched_s < c.ended_s)
            for at in calls
        )

    def ttft_s(self, tenants: tuple[str, ...], part: float, from_s: float) -> float:
        times = sorted(
            call.queued_s + call.started_s - call.dispatched_s
            for call in self.calls
            if call.tenant in tenants and call.dispatched_s >= from_s
        )
        return times[int(part * (len(times) - 1))]

    def longest_wait_s(self, tenant: str) -> float:
        return max(call.queued_s for call in self.calls if call.tenant == tenant)


class PoolModel:
    def __init__(
        self,
        flows: tuple[Flow, ...],
        *,
        queue: str,
        replicas: int,
        slots: int,
        seed: int,
        **changes: Any,
    ) -> None:
        self.config = PoolConfig(
            replicas=tuple(ReplicaConfig(f"r{index}", slots) for index in range(replicas)),
            weights={flow.tenant: flow.weight for flow in flows},
            queue=queue,
            wait_limit_s=(NEVER_S, NEVER_S, NEVER_S),
            shed_wait_ratio=0.0,
            **{"batch_share_ratio": 0.0, **changes},
        )
        self.dispatcher = Dispatcher("pool", self.config, random.Random(seed), 0.0)
        self.run = Run()
        self._rng = random.Random(seed + 1)
        self._events: list[tuple[float, int, str, Flow, int]] = []
        self._order = count()
        self._flow_of: dict[str, Flow] = {}
        for flow in flows:
            for _ in range(flow.threads):
                self._at(flow.starts_s + self._rng.random() * 0.01, "arrive", flow, 0)
            if flow.every_s is not None:
                self._at(flow.starts_s, "arrive", flow, 0)

    def run_until(self, end_s: float) -> Run:
        """May be called again with a later time."""
        while self._events and self._events[0][0] < end_s:
            now_s, _, what, flow, grant_id = heapq.heappop(self._events)
            if what == "start":
                self._carry_out(self.dispatcher.first_event(grant_id, now_s), now_s)
                continue
            if what == "end":
                self._end(flow, grant_id, now_s)
                continue
            self._arrive(flow, now_s)
            if flow.every_s is not None:
                self._at(now_s + flow.every_s, "arrive", flow, 0)
        return self.run

    def set_weights(self, weights: dict[str, float], now_s: float) -> None:
        self.config = replace(self.config, weights=weights)
        self._carry_out(self.dispatcher.apply(self.config, now_s), now_s)

    def _at(self, time_s: float, what: str, flow: Flow, grant_id: int) -> None:
        heapq.heappush(self._events, (time_s, next(self._order), what, flow, grant_id))

    def _arrive(self, flow: Flow, now_s: float) -> None:
        if now_s >= flow.ends_s:
            return
        call_id = f"call-{next(self._order)}"
        expected = flow.output_tokens if flow.expected_output is None else flow.expected_output
        self._flow_of[call_id] = flow
        ticket = Ticket(
            call_id=call_id,
            tenant=flow.tenant,
            key_id="",
            klass=flow.klass,
            arrived_s=now_s,
            deadline_s=NEVER_S,
            input_tokens=flow.input_tokens,
            output_tokens=expected,
            body_bytes=0,
            eligible=flow.eligible,
        )
        self._carry_out(self.dispatcher.submit(ticket, now_s), now_s)

    def _end(self, flow: Flow, grant_id: int, now_s: float) -> None:
        usage = Usage(flow.input_tokens, 0, flow.output_tokens)
        self._carry_out(self.dispatcher.release(grant_id, usage, now_s), now_s)
        if flow.backlogged:
            self._arrive(flow, now_s)

    def _carry_out(self, effects: list[Effect], now_s: float) -> None:
        for effect in effects:
            if isinstance(effect, Grant):
                flow = self._flow_of.pop(effect.call_id)
                self._start(effect, flow, now_s)
            elif isinstance(effect, Refuse):
                self.run.refused.append(effect)

    def _start(self, grant: Grant, flow: Flow, now_s: float) -> None:
        started_s = now_s + flow.input_tokens / PREFILL_TPS
        ended_s = started_s + self._decode_s(flow)
        self._at(started_s, "start", flow, grant.grant_id)
        self._at(ended_s, "end", flow, grant.grant_id)
        tokens = flow.input_tokens + flow.output_tokens
        self.run.calls.append(
            Served(
                flow.tenant,
                grant.replica,
                grant.queued_s,
                now_s,
                flow.cost,
                started_s,
                ended_s,
                tokens,
            )
        )

    def _decode_s(self, flow: Flow) -> float:
        return TOKEN_S * flow.output_tokens * self._rng.uniform(0.8, 1.2)
