"""How unequally were clients served? The metrics of the OSDI'24 comparison, to the last digit.

The service of a call, input + 2 * output, is spread evenly from its first token to its end.

  windows      19 points, x = 28.5 s * (1..19); the window of x is [x, x + 60] s: 60 s wide around
               x + 30 s of warm-up. Other scenarios: 60 s wide, every 30 s
  difference   at x: sum over clients of min(most - s_i, |s_i - d_i|); s_i service and d_i demand
               per second in the window, most = the largest s_i, demand = service of the calls that
               arrive in the window and are not refused. So a client that gets all it asked for adds
               little, and one that gets less than both its demand and the best-served adds much
  accumulated  at x: most - least service of any client in [30, 30 + x] s; meaningful where all
               clients are backlogged

Calls that end in the first second, or whose tokens came within 10 microseconds, are left out, as
the artifact does. Units: service tokens per second; accumulated: service tokens. Source: the
artifact of Sheng et al. (OSDI'24); recomputed from its raw results it gives its published table
exactly.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gateway.simulation.call import Outcome, SimulatedCall

WINDOW_S = 60.0
WARM_UP_S = 30.0
SPAN_S = 600.0
POINTS_S = tuple((SPAN_S - WARM_UP_S) / 20 * number for number in range(1, 20))

Window = tuple[float, float]  # from, to

OSDI_WINDOWS: tuple[Window, ...] = tuple(
    (point_s + WARM_UP_S - WINDOW_S / 2, point_s + WARM_UP_S + WINDOW_S / 2) for point_s in POINTS_S
)


def windows_between(from_s: float, to_s: float) -> tuple[Window, ...]:
    """Of 60 s, every 30 s; one of all of it when it is shorter than that."""
    count = int((to_s - from_s - WINDOW_S) // (WINDOW_S / 2)) + 1
    if count < 1:
        return ((from_s, to_s),)
    starts = (from_s + number * WINDOW_S / 2 for number in range(count))
    return tuple((start_s, start_s + WINDOW_S) for start_s in starts)


@dataclass(frozen=True, slots=True)
class ServedCall:
    """From its first token to its end."""

    client: str
    arrived_s: float
    first_token_s: float
    ended_s: float
    cost: float

    @property
    def counted(self) -> bool:
        return self.ended_s >= 1.0 and self.ended_s - self.first_token_s >= 1e-5


@dataclass(frozen=True, slots=True)
class Difference:
    largest: float
    average: float
    variance: float


def served_calls(outcomes: Iterable[Outcome], now_s: float | None = None) -> list[ServedCall]:
    """Completed calls; with ``now_s`` also those that run then, with what they have received."""
    served = []
    for outcome in outcomes:
        ended_s, cost = outcome.ended_s, outcome.call.cost
        if ended_s is None and now_s is not None:
            ended_s, cost = now_s, outcome.uncached_cost
        if outcome.first_token_s is not None and ended_s is not None:
            call = outcome.call
            served.append(ServedCall(call.tenant, call.at_s, outcome.first_token_s, ended_s, cost))
    return served


def service_difference(
    calls: Sequence[ServedCall],
    windows: Sequence[Window] = OSDI_WINDOWS,
    arrivals: Iterable[SimulatedCall] | None = None,
) -> Difference:
    """``arrivals``: whose demand counts; by default that of the calls that were served."""
    demands = [(call.client, call.arrived_s, call.cost) for call in calls]
    if arrivals is not None:
        demands = [(call.tenant, call.at_s, call.cost) for call in arrivals]
    clients = sorted({client for client, _, _ in demands})
    differences = []
    for from_s, to_s in windows:
        service = service_between(calls, from_s, to_s)
        demand: dict[str, float] = defaultdict(float)
        for client, at_s, cost in demands:
            if from_s <= at_s <= to_s:
                demand[client] += cost
        most = max(service.values(), default=0.0)
        total = sum(min(most - service[one], abs(service[one] - demand[one])) for one in clients)
        differences.append(total / (to_s - from_s))
    return Difference(
        max(differences), statistics.fmean(differences), statistics.pvariance(differences)
    )


def accumulated_differences(
    calls: Sequence[ServedCall],
    points_s: Sequence[float] = POINTS_S,
    *,
    from_s: float = WARM_UP_S,
    weights: Mapping[str, float] | None = None,
) -> list[float]:
    """At ``from_s`` + each point: the most that any client received above any other since
    ``from_s``, divided by its weight."""
    clients = {call.client for call in calls}
    weights = weights or {}
    differences = []
    for point_s in points_s:
        service = service_between(calls, from_s, from_s + point_s)
        received = [service[client] / weights.get(client, 1.0) for client in clients]
        differences.append(max(received) - min(received))
    return differences


def service_between(calls: Iterable[ServedCall], from_s: float, to_s: float) -> dict[str, float]:
    """Service tokens per client."""
    service: dict[str, float] = defaultdict(float)
    for call in calls:
        overlap_s = min(to_s, call.ended_s) - max(from_s, call.first_token_s)
        if overlap_s > 0 and call.counted:
            service[call.client] += call.cost * overlap_s / (call.ended_s - call.first_token_s)
    return service


def throughput_tps(calls: Sequence[ServedCall], tokens: int, *, started_s: float = 0.0) -> float:
    """Tokens (input and output) per second until the last call ended."""
    ended_s = max((call.ended_s for call in calls), default=started_s)
    return tokens / (ended_s - started_s) if ended_s > started_s else 0.0
