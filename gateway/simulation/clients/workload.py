"""Which calls are made, and which follow from the answers?

An open loop sends at its times whatever happens; a closed loop sends the next call when the last
one ended; a session sends its next turn after a pause; a client that obeys Retry-After sends a
refused call again. All of them are one interface: the calls that are known from the start, in order
of time, and the calls that an outcome brings about, none before the moment of the outcome.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from gateway.simulation.call import Outcome, SimulatedCall


class Workload(Protocol):
    def first(self) -> Iterator[SimulatedCall]:
        """In order of time. Read once."""
        ...

    def after(self, outcome: Outcome, now_s: float) -> Iterable[SimulatedCall]:
        """A call was completed or refused."""
        ...


class OpenLoop:
    """Calls whose times are known."""

    def __init__(self, calls: Iterable[SimulatedCall]) -> None:
        self._calls = sorted(calls, key=lambda call: call.at_s)

    def first(self) -> Iterator[SimulatedCall]:
        return iter(self._calls)

    def after(self, outcome: Outcome, now_s: float) -> Sequence[SimulatedCall]:
        return ()
