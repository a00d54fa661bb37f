"""Tenants that always want more, or that send one call now and then.

A ``Backlog`` keeps ``threads`` calls outstanding from ``starts_s`` on: a thread sends its next call
when the last one ended. A ``Ticking`` tenant sends one call every ``every_s``. Both as in a
queueing textbook; what a call costs is constant. Units: seconds, tokens.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from gateway.core.priority import PriorityClass
from gateway.simulation.call import Outcome, SimulatedCall

_SPREAD_S = 0.01  # threads do not start in the same instant


@dataclass(frozen=True, slots=True)
class Backlog:
    tenant: str
    threads: int
    input_tokens: int
    output_tokens: int
    klass: PriorityClass = PriorityClass.STANDARD
    starts_s: float = 0.0
    eligible: frozenset[str] | None = None
    spread: float = 0.2
    name: str = ""  # apart from the tenant's other flows


@dataclass(frozen=True, slots=True)
class Ticking:
    """``rate`` calls per second: at even distances, or Poisson when ``random``."""

    tenant: str
    rate: float
    input_tokens: int
    output_tokens: int
    klass: PriorityClass = PriorityClass.STANDARD
    starts_s: float = 0.0
    random: bool = False
    name: str = ""


Flow = Backlog | Ticking


class Flows:
    """Implements ``Workload``."""

    def __init__(self, flows: Sequence[Flow], seed: int, seconds: float) -> None:
        self._flows = {f"{flow.tenant}{flow.name}": flow for flow in flows}
        assert len(self._flows) == len(flows)
        self._seconds = seconds
        self._rng = random.Random(seed)
        self._numbers = count(1)

    def first(self) -> Iterator[SimulatedCall]:
        calls = [call for name, flow in self._flows.items() for call in self._calls(name, flow)]
        return iter(sorted(calls, key=lambda call: call.at_s))

    def after(self, outcome: Outcome, now_s: float) -> Sequence[SimulatedCall]:
        name = outcome.call.tag
        if not isinstance(self._flows[name], Backlog) or now_s >= self._seconds:
            return ()
        return (self._call(name, now_s),)

    def _calls(self, name: str, flow: Flow) -> Iterator[SimulatedCall]:
        if isinstance(flow, Backlog):
            for _ in range(flow.threads):
                yield self._call(name, flow.starts_s + self._rng.random() * _SPREAD_S)
            return
        at_s = flow.starts_s
        while at_s < self._seconds:
            yield self._call(name, at_s)
            at_s += self._rng.expovariate(flow.rate) if flow.random else 1 / flow.rate

    def _call(self, name: str, at_s: float) -> SimulatedCall:
        flow = self._flows[name]
        output_tokens = flow.output_tokens
        if isinstance(flow, Backlog):
            output_tokens = round(
                output_tokens * self._rng.uniform(1 - flow.spread, 1 + flow.spread)
            )
        return SimulatedCall(
            call_id=f"f{next(self._numbers)}",
            tenant=flow.tenant,
            at_s=at_s,
            input_tokens=flow.input_tokens,
            output_tokens=max(1, output_tokens),
            klass=flow.klass,
            eligible=flow.eligible if isinstance(flow, Backlog) else None,
            tag=name,
        )
