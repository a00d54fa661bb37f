"""Many tenants, three classes, Poisson arrivals at a rate that changes: the load of overload tests.

``profile`` says how many calls per second arrive from which time on. Each call is of a random class
and tenant; its lengths are uniform within half of the mean either way. Units: seconds, tokens.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from gateway.core.priority import PriorityClass
from gateway.simulation.call import SimulatedCall


@dataclass(frozen=True, slots=True)
class Mix:
    """``shares``: of interactive, standard and batch."""

    profile: tuple[tuple[float, float], ...]  # (from s, calls per second), in order
    shares: tuple[float, float, float] = (0.4, 0.3, 0.3)
    tenants: int = 4
    input_tokens: int = 500
    output_tokens: int = 200


def mix_calls(mix: Mix, seed: int, seconds: float) -> Iterator[SimulatedCall]:
    rng = random.Random(seed)
    ends_s = [from_s for from_s, _ in mix.profile[1:]] + [seconds]
    number = 0
    for (from_s, rate), end_s in zip(mix.profile, ends_s, strict=True):
        at_s = from_s
        while rate > 0 and (at_s := at_s + rng.expovariate(rate)) < min(end_s, seconds):
            number += 1
            yield SimulatedCall(
                call_id=f"m{number}",
                tenant=f"tenant-{rng.randrange(mix.tenants)}",
                at_s=at_s,
                input_tokens=_about(mix.input_tokens, rng),
                output_tokens=_about(mix.output_tokens, rng),
                klass=rng.choices(tuple(PriorityClass), weights=mix.shares)[0],
            )


def _about(mean: int, rng: random.Random) -> int:
    return max(1, round(mean * rng.uniform(0.5, 1.5)))
