"""Conversations: each turn sends all that was said before and comes after the answer to the last.

A new session starts at Poisson times. Its first prompt is the system prompt that all sessions share
plus a question; every later one is the last prompt, the last answer and a new question, after a
pause for thought. So the prompt of a turn is a prefix of the next, answer included. Units: tokens,
seconds.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gateway.simulation.call import Outcome, SimulatedCall
from gateway.simulation.workloads.prefixes import chained


@dataclass(frozen=True, slots=True)
class SessionLoad:
    sessions_per_s: float = 3.0
    system_tokens: int = 2_000
    turns: int = 8
    question_tokens: int = 400
    output_tokens: int = 300
    think_s: float = 8.0  # mean, exponential
    block_tokens: int = 100
    tenant: str = "users"


class Sessions:
    """Implements ``Workload``."""

    def __init__(self, load: SessionLoad, seed: int, seconds: float) -> None:
        self._load = load
        self._seconds = seconds
        self._arrivals = random.Random(seed)
        self._pauses = random.Random(seed + 1)

    def first(self) -> Iterator[SimulatedCall]:
        at_s, session = 0.0, 0
        while (
            at_s := at_s + self._arrivals.expovariate(self._load.sessions_per_s)
        ) < self._seconds:
            session += 1
            yield self._turn(session, 1, at_s)

    def after(self, outcome: Outcome, now_s: float) -> Sequence[SimulatedCall]:
        session, turn = map(int, outcome.call.tag.split("."))
        at_s = now_s + self._pauses.expovariate(1 / self._load.think_s)
        if turn == self._load.turns or at_s >= self._seconds or not outcome.completed:
            return ()
        return (self._turn(session, turn + 1, at_s),)

    def _turn(self, session: int, turn: int, at_s: float) -> SimulatedCall:
        load = self._load
        said = turn * load.question_tokens + (turn - 1) * load.output_tokens
        parts = ((0, load.system_tokens), (session, said + load.output_tokens))
        return SimulatedCall(
            call_id=f"s{session}.{turn}",
            tenant=load.tenant,
            at_s=at_s,
            input_tokens=load.system_tokens + said,
            output_tokens=load.output_tokens,
            block_hashes=chained(parts, load.block_tokens),
            block_tokens=load.block_tokens,
            conversation=session,
            tag=f"{session}.{turn}",
        )
