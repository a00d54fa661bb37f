"""Too much load: what is refused, what is served, when do the refused come back?

Four replicas with 64 sequences. Their capacity for calls of 500 + 200 tokens, computed from the
step model: prefill 500 / 20,480 s and 200 / 64 of a step of 26.4 ms, about 9.4 calls/s each. ``1x``
is 0.85 of that in all, so that the reference run itself has no overload. The pool has the product's
own defaults: wait limits, queue bounds, shedding, holdback, preemption.

  mixed_1x, mixed_2x, mixed_5x  40 % interactive, 30 % standard, 30 % batch
  interactive_5x                interactive alone
  burst                         10 x capacity for 10 s, then 0.8 x; refused clients return when
                                told, unless more than 60 s (``x-should-retry: false``)
  burst_stubborn                the same with clients that return whatever they are told, and a pool
                                whose longest Retry-After is 600 s
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gateway.core.dispatch.effects import PoolConfig, ReplicaConfig
from gateway.simulation.clients.mix import Mix, mix_calls
from gateway.simulation.clients.returning import Returning
from gateway.simulation.clients.workload import OpenLoop, Workload
from gateway.simulation.engines.fleet import FleetConfig
from gateway.simulation.scenario import EngineConfigs, Scenario

REPLICAS = 4
SLOTS = 64
CAPACITY_CPS = REPLICAS / (500 / 20_480 + 200 / SLOTS * 0.0264)
REFERENCE_CPS = 0.85 * CAPACITY_CPS
BURST_S = (20.0, 30.0)

_FLEET: dict[str, EngineConfigs] = {
    f"r{number}": FleetConfig(sequences=SLOTS) for number in range(REPLICAS)
}
_POOL = PoolConfig(
    replicas=tuple(ReplicaConfig(slug, SLOTS, kv_tokens=250_000) for slug in _FLEET),
    weights={},
    step_budget_tokens=8_192,
)


def _load(mix: Mix) -> Callable[[int, float], Workload]:
    return lambda seed, seconds: OpenLoop(mix_calls(mix, seed, seconds))


def _returning(mix: Mix, *, stubborn: bool = False) -> Callable[[int, float], Workload]:
    return lambda seed, seconds: Returning(
        OpenLoop(mix_calls(mix, seed, seconds)), seed + 1, stubborn=stubborn
    )


def _scenario(name: str, about: str, workload: Callable[[int, float], Workload]) -> Scenario:
    return Scenario(
        name=name,
        about=about,
        engines=_FLEET,
        pool=_POOL,
        workload=workload,
        seconds=120.0,
        warm_up_s=30.0,
    )


_INTERACTIVE = (1.0, 0.0, 0.0)
_BURST = (
    (0.0, 0.8 * CAPACITY_CPS),
    (BURST_S[0], 10 * CAPACITY_CPS),
    (BURST_S[1], 0.8 * CAPACITY_CPS),
)
_STANDARD = (0.0, 1.0, 0.0)

OVERLOAD_SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        *(
            _scenario(
                f"mixed_{times}x",
                f"three classes, {times} x the reference load of {REFERENCE_CPS:.0f} calls/s",
                _load(Mix(((0.0, times * REFERENCE_CPS),))),
            )
            for times in (1, 2, 5)
        ),
        _scenario(
            "interactive_5x",
            "interactive calls alone, 5 x the reference load",
            _load(Mix(((0.0, 5 * REFERENCE_CPS),), _INTERACTIVE)),
        ),
        replace(
            _scenario(
                "burst",
                "10 x capacity for 10 s, then 0.8 x; clients return when Retry-After says so",
                _returning(Mix(_BURST, _STANDARD)),
            ),
            warm_up_s=0.0,
            seconds=180.0,
        ),
        replace(
            _scenario(
                "burst_stubborn",
                "burst; clients return whatever they are told, at most after 600 s",
                _returning(Mix(_BURST, _STANDARD), stubborn=True),
            ),
            pool=replace(_POOL, longest_retry_s=600.0),
            warm_up_s=0.0,
            seconds=300.0,
        ),
    )
}
