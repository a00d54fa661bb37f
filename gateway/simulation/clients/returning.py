"""Clients that come back: a refused call is sent again when Retry-After says so.

Wraps any workload. The call comes back under another id, with the same tenant and content, at the
time it was told or up to ``late_ratio`` later (the gateway's header adds up to 20 %, none comes
earlier), at most
``attempts`` times; then the client gives up. What the wrapped workload does after an outcome it
does after the last attempt.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

from gateway.simulation.call import Outcome, SimulatedCall
from gateway.simulation.clients.workload import Workload


class Returning:
    """Implements ``Workload``."""

    def __init__(
        self, workload: Workload, seed: int, *, attempts: int = 5, late_ratio: float = 0.2
    ) -> None:
        self._workload = workload
        self._rng = random.Random(seed)
        self._attempts = attempts
        self._late_ratio = late_ratio

    def first(self) -> Iterator[SimulatedCall]:
        return self._workload.first()

    def after(self, outcome: Outcome, now_s: float) -> Sequence[SimulatedCall]:
        call, after_s = outcome.call, outcome.retry_after_s
        if outcome.refused is None or after_s is None or call.attempt + 1 >= self._attempts:
            return tuple(self._workload.after(outcome, now_s))
        again = replace(
            call,
            call_id=f"{call.call_id}+",
            at_s=now_s + after_s * (1 + self._late_ratio * self._rng.random()),
            attempt=call.attempt + 1,
            first_at_s=call.at_s if call.first_at_s is None else call.first_at_s,
        )
        return (again,)
