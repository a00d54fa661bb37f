"""A tenant far above its share is refused and promised capacity for later: who else pays for that?

51 connections beside 3 at one replica of 4 slots, in virtual time, with shedding and bookings in
force. Refused connections come again after a quarter of a second with another prompt, so that no
promise is kept.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from itertools import count

from gateway.core.dispatch.dispatcher import Dispatcher
from gateway.core.dispatch.effects import Effect, Grant, PoolConfig, ReplicaConfig, Ticket, Usage
from gateway.core.priority import PriorityClass

SECONDS, PAUSE_S = 60.0, 0.25
INPUT_TOKENS, OUTPUT_TOKENS = 110, 80
FIRST_TOKEN_S, CALL_S = 0.05, 1.1


class Connections:
    def __init__(self) -> None:
        config = PoolConfig((ReplicaConfig("r", 4),), {})
        self.pool = Dispatcher("pool", config, random.Random(1), 0.0)
        self.served: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self._rng, self._numbers = random.Random(2), count(1)
        self._events: list[tuple[float, int, str, str | int]] = []
        self._waiting: dict[str, str] = {}
        self._running: dict[int, str] = {}

    def run(self, connections: dict[str, int]) -> None:
        for tenant, number in connections.items():
            for each in range(number):
                self._at(each / 1000, "call", tenant)
        while self._events[0][0] < SECONDS:
            wake_s = self.pool.next_wake
            if wake_s is not None and wake_s <= self._events[0][0]:
                self._carry_out(self.pool.wake(wake_s), wake_s)
                continue
            now_s, _, what, about = heapq.heappop(self._events)
            getattr(self, f"_{what}")(about, now_s)

    def _call(self, tenant: str, now_s: float) -> None:
        number = next(self._numbers)
        ticket = Ticket(
            call_id=f"c{number}",
            tenant=tenant,
            key_id=tenant,
            klass=PriorityClass.STANDARD,
            arrived_s=now_s,
            deadline_s=now_s + 600.0,
            input_tokens=INPUT_TOKENS,
            output_tokens=OUTPUT_TOKENS,
            body_bytes=600,
            prompt_hash=number,
        )
        self._waiting[ticket.call_id] = tenant
        self._carry_out(self.pool.submit(ticket, now_s), now_s)

    def _begin(self, grant_id: int, now_s: float) -> None:
        self._carry_out(self.pool.first_event(grant_id, now_s), now_s)

    def _end(self, grant_id: int, now_s: float) -> None:
        tenant = self._running.pop(grant_id)
        self.served[tenant] += 1
        self._at(now_s + 0.005, "call", tenant)
        usage = Usage(INPUT_TOKENS, 0, OUTPUT_TOKENS)
        self._carry_out(self.pool.release(grant_id, usage, now_s), now_s)

    def _carry_out(self, effects: list[Effect], now_s: float) -> None:
        for effect in effects:
            tenant = self._waiting.pop(effect.call_id)
            if isinstance(effect, Grant):
                self._running[effect.grant_id] = tenant
                self._at(now_s + FIRST_TOKEN_S, "begin", effect.grant_id)
                self._at(now_s + CALL_S * self._rng.uniform(0.95, 1.05), "end", effect.grant_id)
            else:
                self.refused[tenant] += 1
                self._at(now_s + PAUSE_S, "call", tenant)

    def _at(self, time_s: float, what: str, about: str | int) -> None:
        heapq.heappush(self._events, (time_s, next(self._numbers), what, about))


def test_promises_to_one_tenant_refuse_nobody_who_is_within_its_share() -> None:
    """Row 59."""
    connections = Connections()
    connections.run({"elephant": 51, "mouse": 3})
    assert connections.refused["elephant"] > 0
    assert connections.refused["mouse"] == 0
    assert abs(connections.served["mouse"] / connections.served.total() - 0.5) <= 0.05
