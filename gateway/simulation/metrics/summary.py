"""What does one run say in one line?

Counted are the calls that arrive after the warm-up; one that had no first token when the run ended
counts with its age. ``good``: completed within its objectives for time to the first token and per
token. Units: seconds, tokens per second (input and output), service tokens.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gateway.simulation.call import Outcome
from gateway.simulation.metrics.service_difference import (
    Difference,
    ServedCall,
    accumulated_differences,
    served_calls,
    service_difference,
    throughput_tps,
    windows_between,
)
from gateway.simulation.scenario import Objectives, Scenario
from gateway.simulation.simulator import Run


@dataclass(frozen=True, slots=True)
class Quantiles:
    count: int
    mean: float | None
    p50: float | None
    p90: float | None
    p95: float | None
    p99: float | None


@dataclass(frozen=True, slots=True)
class Summary:
    calls: int
    completed: int
    refused: dict[str, int]
    open: int
    good: int
    throughput_tps: float
    hit_ratio: float
    ttft_s: Quantiles
    tpot_s: Quantiles
    difference: Difference | None
    accumulated: float | None
    service: dict[str, float] = field(default_factory=dict)  # by tenant, delivered
    calls_by_replica: dict[str, int] = field(default_factory=dict)
    load_imbalance: float = 1.0  # largest / mean of the replicas' delivered service
    preemptions: int = 0

    @property
    def goodput_ratio(self) -> float:
        return self.good / self.calls if self.calls else 0.0


def summary(run: Run, scenario: Scenario) -> Summary:
    counted = [one for one in run.outcomes if one.call.at_s >= scenario.warm_up_s]
    all_served = served_calls(run.outcomes)
    service = delivered(run, scenario.warm_up_s)
    by_replica: dict[str, float] = defaultdict(float)
    for one in counted:
        if one.replica:
            by_replica[one.replica] += one.cost
    tenants = {one.call.tenant for one in run.outcomes}
    difference, accumulated = None, None
    if len(tenants) > 1 and all_served:
        difference, accumulated = _fairness(run, scenario)
    return Summary(
        calls=len(counted),
        completed=sum(one.completed for one in counted),
        refused=dict(Counter(str(one.refused) for one in counted if one.refused)),
        open=sum(one.open for one in counted),
        good=sum(is_good(one, scenario.objectives) for one in counted),
        throughput_tps=_throughput_tps(run, scenario, all_served),
        hit_ratio=hit_ratio(counted),
        ttft_s=quantiles([o.ttft_s(run.ended_s) for o in counted if o.refused is None]),
        tpot_s=quantiles([s for one in counted if (s := one.tpot_s) is not None]),
        difference=difference,
        accumulated=accumulated,
        service=service,
        calls_by_replica=dict(Counter(one.replica for one in counted if one.replica)),
        load_imbalance=imbalance(by_replica, len(scenario.engines)),
        preemptions=sum(one.preemptions for one in counted),
    )


def _fairness(run: Run, scenario: Scenario) -> tuple[Difference, float]:
    """In the OSDI'24 suites as their artifact has it; elsewhere what runs counts as well, and the
    demand of the calls that wait."""
    weights = scenario.pool.weights
    if scenario.osdi:
        served = served_calls(run.outcomes)
        accumulated = accumulated_differences(served, weights=weights)
        return service_difference(served), max(accumulated)
    served = served_calls(run.outcomes, run.ended_s)
    windows = windows_between(scenario.warm_up_s, run.ended_s)
    arrivals = [outcome.call for outcome in run.outcomes if outcome.refused is None]
    points_s = [to_s - scenario.warm_up_s for _, to_s in windows]
    accumulated = accumulated_differences(
        served, points_s, from_s=scenario.warm_up_s, weights=weights
    )
    return service_difference(served, windows, arrivals), max(accumulated)


def is_good(outcome: Outcome, objectives: Objectives) -> bool:
    if not outcome.completed:
        return False
    tpot_s = outcome.tpot_s
    fast = outcome.ttft_s(0.0) <= objectives.ttft_s[outcome.call.klass]
    return fast and (tpot_s is None or tpot_s <= objectives.tpot_s)


def quantiles(values: Iterable[float]) -> Quantiles:
    ordered = sorted(values)
    if not ordered:
        return Quantiles(0, None, None, None, None, None)
    mean = math.fsum(ordered) / len(ordered)
    return Quantiles(len(ordered), mean, *(quantile(ordered, q) for q in (0.5, 0.9, 0.95, 0.99)))


def quantile(ordered: Sequence[float], ratio: float) -> float:
    """Nearest rank."""
    return ordered[min(len(ordered) - 1, math.ceil(ratio * len(ordered)) - 1 if ratio else 0)]


def hit_ratio(outcomes: Iterable[Outcome]) -> float:
    """Prompt tokens that were found in a cache, of those that were computed or found."""
    started = [one for one in outcomes if one.first_token_s is not None]
    prompt = sum(one.call.input_tokens for one in started)
    return sum(one.cached_tokens for one in started) / prompt if prompt else 0.0


def imbalance(load: dict[str, float], replicas: int) -> float:
    total = sum(load.values())
    return max(load.values()) * replicas / total if total else 1.0


def delivered(run: Run, from_s: float) -> dict[str, float]:
    """Service by tenant after ``from_s``, what runs included: the part of a call's service between
    its first token and its last that lies in it."""
    service: dict[str, float] = defaultdict(float)
    for one in run.outcomes:
        if one.first_token_s is None:
            continue
        end_s = run.ended_s if one.ended_s is None else one.ended_s
        span_s = end_s - one.first_token_s
        inside_s = end_s - max(from_s, one.first_token_s)
        if inside_s > 0:
            service[one.call.tenant] += one.cost * (inside_s / span_s if span_s else 1.0)
    return dict(service)


def _throughput_tps(run: Run, scenario: Scenario, served: Sequence[ServedCall]) -> float:
    """Where all calls are simulated to their end: over all of it, as the OSDI'24 table does."""
    if scenario.osdi:
        tokens = sum(o.call.input_tokens + o.produced for o in run.outcomes if o.completed)
        return throughput_tps(served, tokens)
    tokens = sum(
        one.call.input_tokens + one.produced
        for one in run.outcomes
        if one.ended_s is not None and one.ended_s >= scenario.warm_up_s
    )
    span_s = run.ended_s - scenario.warm_up_s
    return tokens / span_s if span_s > 0 else 0.0
