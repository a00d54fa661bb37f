"""The synthetic suites of the OSDI'24 comparison: who sends how much, when?

Two to eight clients, each call 256 tokens in and 256 out unless said otherwise. ``uniform``: client
i sends ``rates[i]`` calls per second at even distances from a random phase; an ``on_off`` client 0
is silent in every second minute. ``short_long``: Poisson, client 0's calls are a quarter as long.
``dist_shift``: three phases of 300 s, on-off, overload, proportional. The times are seeded here and
not those of the artifact's generator, whose seeds belong to another library. Times in seconds.

``weights-equal-rates`` is this project's own: in ``overload-weighted`` the rates are as the
weights, so that first come, first served gives the right shares too.

Source: parameters of Sheng et al. (OSDI'24) and its artifact.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from gateway.simulation.call import SimulatedCall


@dataclass(frozen=True, slots=True)
class Suite:
    name: str
    rates: tuple[float, ...]  # calls per second of each client
    duration_s: float
    input_tokens: int = 256
    output_tokens: int = 256
    on_off_s: float | None = None
    shape: str = "uniform"
    weights: tuple[float, ...] = ()

    @property
    def weight_of(self) -> dict[str, float]:
        return {client_name(number): weight for number, weight in enumerate(self.weights)}


def client_name(number: int) -> str:
    return f"client-{number}"


def suite_calls(suite: Suite, seed: int) -> list[SimulatedCall]:
    """In order of time."""
    rng = random.Random(seed)
    if suite.shape == "short_long":
        calls = list(_short_long(suite, rng))
    elif suite.shape == "dist_shift":
        calls = [call for phase in _PHASES for call in _uniform(*phase, suite, rng)]
    else:
        calls = list(_uniform(suite.rates, suite.duration_s, 0.0, suite.on_off_s, suite, rng))
    calls.sort(key=lambda call: call.at_s)
    return [_named(call, number) for number, call in enumerate(calls)]


def jittered(calls: list[SimulatedCall], seed: int, by_s: float = 1.0) -> list[SimulatedCall]:
    """Every arrival moved by up to ``by_s`` either way, never before 0."""
    rng = random.Random(seed)
    moved = [_moved(call, max(0.0, call.at_s + rng.uniform(-by_s, by_s))) for call in calls]
    return sorted(moved, key=lambda call: call.at_s)


def _uniform(
    rates: tuple[float, ...],
    duration_s: float,
    from_s: float,
    on_off_s: float | None,
    suite: Suite,
    rng: random.Random,
) -> Iterator[SimulatedCall]:
    for client, rate in enumerate(rates):
        at_s = from_s + rng.random() / rate
        for _ in range(int(rate * duration_s)):
            at_s += 1 / rate
            silent = client == 0 and on_off_s is not None and int(at_s // on_off_s) % 2 == 1
            if not silent:
                yield _call(client, at_s, suite, 1)


def _short_long(suite: Suite, rng: random.Random) -> Iterator[SimulatedCall]:
    at_s, total = 0.0, sum(suite.rates)
    for _ in range(int(total * suite.duration_s)):
        at_s += rng.expovariate(total)
        client = 0 if rng.random() < suite.rates[0] / total else 1
        yield _call(client, at_s, suite, 4 if client == 0 else 1)


def _call(client: int, at_s: float, suite: Suite, shorter: int) -> SimulatedCall:
    return SimulatedCall(
        call_id="",
        tenant=client_name(client),
        at_s=at_s,
        input_tokens=suite.input_tokens // shorter,
        output_tokens=suite.output_tokens // shorter,
    )


def _named(call: SimulatedCall, number: int) -> SimulatedCall:
    return SimulatedCall(
        f"c{number}", call.tenant, call.at_s, call.input_tokens, call.output_tokens
    )


def _moved(call: SimulatedCall, at_s: float) -> SimulatedCall:
    return SimulatedCall(call.call_id, call.tenant, at_s, call.input_tokens, call.output_tokens)


_PHASES: tuple[tuple[tuple[float, ...], float, float, float | None], ...] = (
    ((0.5, 2.0), 300.0, 0.0, 60.0),
    ((1.0, 1.0), 300.0, 300.0, None),
    ((0.5, 1.5), 300.0, 600.0, None),
)

SUITES: dict[str, Suite] = {
    suite.name: suite
    for suite in (
        Suite("overload", (1.5, 3.0), 360.0),
        Suite("overload-600", (1.5, 3.0), 600.0),
        Suite("overload-multi", (0.4,) * 3 + (0.6,) * 5, 360.0),
        Suite("overload-weighted", (0.4, 0.8, 1.2, 1.6), 360.0, weights=(1.0, 2.0, 3.0, 4.0)),
        Suite("weights-equal-rates", (1.6,) * 4, 360.0, weights=(1.0, 2.0, 3.0, 4.0)),
        Suite("proportional", (0.25, 0.5, 1.5), 600.0),
        Suite("on_off_less", (0.5, 2.0), 600.0, on_off_s=60.0),
        Suite("on_off_overload", (2.0, 3.0), 600.0, on_off_s=60.0),
        Suite("poisson_short_long", (8.0, 1.5), 600.0, shape="short_long"),
        Suite("dist_shift", (0.5, 2.0), 900.0, shape="dist_shift"),
    )
}
