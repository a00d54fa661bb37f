"""How unequally were clients served? The metrics of the OSDI'24 comparison, to the last digit.

The service of a call, input + 2 * output, is spread evenly from its first token to its end.

  windows      19 points, x = 28.5 s * (1..19); the window of x is [x, x + 60] s: 60 s wide around
               x + 30 s of warm-up
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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gateway.simulation.call import Outcome

WINDOW_S = 60.0
WARM_UP_S = 30.0
SPAN_S = 600.0
POINTS_S = tuple((SPAN_S - WARM_UP_S) / 20 * number for number in range(1, 20))


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


def served_calls(outcomes: Iterable[Outcome]) -> list[ServedCall]:
    return [
        ServedCall(
            client=outcome.call.tenant,
            arrived_s=outcome.call.at_s,
            first_token_s=outcome.first_token_s,
            ended_s=outcome.ended_s,
            cost=outcome.call.cost,
        )
        for outcome in outcomes
        if outcome.first_token_s is not None and outcome.ended_s is not None
    ]


def service_difference(
    calls: Sequence[ServedCall], points_s: Sequence[float] = POINTS_S
) -> Difference:
    clients = sorted({call.client for call in calls})
    differences = []
    for point_s in points_s:
        from_s = point_s + WARM_UP_S - WINDOW_S / 2
        to_s = from_s + WINDOW_S
        service = service_between(calls, from_s, to_s)
        demand: dict[str, float] = defaultdict(float)
        for call in calls:
            if from_s <= call.arrived_s <= to_s:
                demand[call.client] += call.cost
        most = max(service.values(), default=0.0)
        total = sum(
            min(most - service[client], abs(service[client] - demand[client])) for client in clients
        )
        differences.append(total / WINDOW_S)
    return Difference(
        max(differences), statistics.fmean(differences), statistics.pvariance(differences)
    )


def accumulated_differences(
    calls: Sequence[ServedCall], points_s: Sequence[float] = POINTS_S
) -> list[float]:
    """At each point: the most that any client received above any other since the warm-up."""
    clients = {call.client for call in calls}
    differences = []
    for point_s in points_s:
        service = service_between(calls, WARM_UP_S, WARM_UP_S + point_s)
        received = [service[client] for client in clients]
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
