"""Clients that come back: a refused call is sent again when Retry-After says so.

Wraps any workload. The call comes back under another id, with the same tenant and content, at the
time that the gateway's header says (what the refusal computed and 0 to 20 % more, none comes
earlier), at most ``attempts`` times; then the client gives up. Above 60 s the header comes with
``x-should-retry: false``: public SDKs give up then, and so does a client that is not ``stubborn``
(one that knows only Retry-After). What the wrapped workload does after an outcome it does after the
last attempt.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

from gateway.core.dispatch.bookings import JITTER_RATIO
from gateway.core.dispatch.refusals import LONGEST_S
from gateway.simulation.call import Outcome, SimulatedCall
from gateway.simulation.clients.workload import Workload


class Returning:
    """Implements ``Workload``."""

    def __init__(
        self, workload: Workload, seed: int, *, attempts: int = 5, stubborn: bool = False
    ) -> None:
        self._workload = workload
        self._rng = random.Random(seed)
        self._attempts = attempts
        self._stubborn = stubborn

    def first(self) -> Iterator[SimulatedCall]:
        return self._workload.first()

    def after(self, outcome: Outcome, now_s: float) -> Sequence[SimulatedCall]:
        call, computed_s = outcome.call, outcome.retry_after_s
        if outcome.refused is None or computed_s is None or call.attempt + 1 >= self._attempts:
            return tuple(self._workload.after(outcome, now_s))
        after_s = computed_s * self._rng.uniform(1.0, JITTER_RATIO)
        if after_s > LONGEST_S and not self._stubborn:
            return tuple(self._workload.after(outcome, now_s))
        again = replace(
            call,
            call_id=f"{call.call_id}+",
            at_s=now_s + after_s,
            attempt=call.attempt + 1,
            first_at_s=call.at_s if call.first_at_s is None else call.first_at_s,
        )
        return (again,)
