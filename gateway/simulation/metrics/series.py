"""How did a run go over time? The lines of the report.

Every line has one point per ``step_s``. Service is in service tokens, spread evenly from a call's
first token to its end (or to the end of the run). With many tenants the report draws the largest
ones; the accumulated difference is over all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gateway.simulation.call import Outcome
from gateway.simulation.metrics.service_difference import (
    ServedCall,
    accumulated_differences,
    served_calls,
)
from gateway.simulation.simulator import Run

POINTS = 100
LARGEST_TENANTS = 8


@dataclass(frozen=True, slots=True)
class Series:
    at_s: tuple[float, ...] = ()
    service_tps: Mapping[str, tuple[float, ...]] = field(default_factory=dict)  # by tenant
    accumulated: tuple[float, ...] = ()  # largest difference since the warm-up
    running: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # by replica
    waiting: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    look_s: tuple[float, ...] = ()
    ttft_s: tuple[float, ...] = ()  # sorted


def series_of(
    run: Run, replicas: Sequence[str], warm_up_s: float, weights: Mapping[str, float]
) -> Series:
    served = served_calls(run.outcomes, run.ended_s)
    step_s = max(run.ended_s / POINTS, 1e-9)
    at_s = tuple(step_s * (number + 1) for number in range(POINTS))
    inside = [point_s - warm_up_s for point_s in at_s if point_s > warm_up_s]
    accumulated = [0.0] * (len(at_s) - len(inside))
    if len({call.client for call in served}) > 1:
        accumulated += accumulated_differences(served, inside, from_s=warm_up_s, weights=weights)
    looks = run.looks[:: max(1, len(run.looks) // (2 * POINTS))]
    return Series(
        at_s=at_s,
        service_tps=_rates(served, step_s),
        accumulated=tuple(accumulated),
        running={
            slug: tuple(look.running[index] for look in looks)
            for index, slug in enumerate(replicas)
        },
        waiting={
            slug: tuple(look.waiting[index] for look in looks)
            for index, slug in enumerate(replicas)
        },
        look_s=tuple(look.at_s for look in looks),
        ttft_s=_sorted_ttft(run.outcomes, warm_up_s, run.ended_s),
    )


def _rates(served: Sequence[ServedCall], step_s: float) -> dict[str, tuple[float, ...]]:
    totals: dict[str, float] = {}
    lines: dict[str, list[float]] = {}
    for call in served:
        totals[call.client] = totals.get(call.client, 0.0) + call.cost
        _spread(call, lines.setdefault(call.client, [0.0] * POINTS), step_s)
    largest = sorted(totals, key=totals.__getitem__, reverse=True)[:LARGEST_TENANTS]
    return {client: tuple(value / step_s for value in lines[client]) for client in sorted(largest)}


def _spread(call: ServedCall, line: list[float], step_s: float) -> None:
    span_s = call.ended_s - call.first_token_s
    first = min(POINTS - 1, int(call.first_token_s / step_s))
    if span_s <= 0:
        line[first] += call.cost
        return
    for cell in range(first, min(POINTS - 1, int(call.ended_s / step_s)) + 1):
        from_s = max(call.first_token_s, cell * step_s)
        to_s = min(call.ended_s, (cell + 1) * step_s)
        line[cell] += call.cost * max(0.0, to_s - from_s) / span_s


def _sorted_ttft(
    outcomes: Sequence[Outcome], warm_up_s: float, ended_s: float
) -> tuple[float, ...]:
    found = sorted(
        one.ttft_s(ended_s)
        for one in outcomes
        if one.refused is None and one.call.at_s >= warm_up_s
    )
    if len(found) <= 2 * POINTS:
        return tuple(found)
    last = len(found) - 1
    return tuple(found[last * number // (2 * POINTS)] for number in range(2 * POINTS + 1))
