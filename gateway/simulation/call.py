"""What is asked in a simulation, and what became of it.

A ``SimulatedCall`` is what a client sends; ``output_tokens`` is where the answer will stop, which
neither gateway nor client knows. An ``Outcome`` is written while the call lives and read by the
metrics. Times are seconds of the simulation's clock, None where the moment never came.
"""

from __future__ import annotations

from dataclasses import dataclass

from gateway.core.cost import service_cost
from gateway.core.priority import PriorityClass
from gateway.core.reasons import Reason


@dataclass(frozen=True, slots=True)
class SimulatedCall:
    """``block_hashes``: chained hashes of the full blocks of prompt and answer, ``block_tokens``
    each; may end anywhere (the rest is never shared). ``attempt`` counts from 0: a client that
    obeys Retry-After sends the same call again under another id. ``first_at_s``: when the first
    attempt was made. ``conversation``: the same for its turns, 0 = none. ``tag`` is
    the workload's own."""

    call_id: str
    tenant: str
    at_s: float
    input_tokens: int
    output_tokens: int
    klass: PriorityClass = PriorityClass.STANDARD
    block_hashes: tuple[int, ...] = ()
    block_tokens: int = 0
    eligible: frozenset[str] | None = None
    attempt: int = 0
    first_at_s: float | None = None
    conversation: int = 0
    tag: str = ""

    @property
    def cost(self) -> float:
        """Service tokens without any cache: input + 2 * output."""
        return service_cost(self.input_tokens, 0, self.output_tokens)


@dataclass(slots=True, eq=False)
class Outcome:
    call: SimulatedCall
    replica: str = ""
    dispatched_s: float | None = None
    first_token_s: float | None = None
    ended_s: float | None = None
    cached_tokens: int = 0
    produced: int = 0
    preemptions: int = 0
    wasted_tokens: int = 0  # computed for grants that were taken back
    rule: str = ""
    refused: Reason | None = None
    refused_s: float | None = None
    retry_after_s: float | None = None

    @property
    def completed(self) -> bool:
        return self.ended_s is not None

    @property
    def open(self) -> bool:
        """Neither completed nor refused."""
        return self.ended_s is None and self.refused is None

    def ttft_s(self, now_s: float) -> float:
        """A call without a first token counts with its age at ``now_s``, so that what waits for
        ever is not left out."""
        end_s = now_s if self.first_token_s is None else self.first_token_s
        return end_s - self.call.at_s

    @property
    def tpot_s(self) -> float | None:
        if self.ended_s is None or self.first_token_s is None or self.call.output_tokens < 2:
            return None
        return (self.ended_s - self.first_token_s) / (self.call.output_tokens - 1)

    @property
    def uncached_cost(self) -> float:
        """Service tokens that were delivered, as if nothing had been cached."""
        return service_cost(self.call.input_tokens, 0, self.produced)

    @property
    def cost(self) -> float:
        """Service tokens that were delivered."""
        return service_cost(self.call.input_tokens, self.cached_tokens, self.produced)
