"""What does a pool look like now? For pages and metrics, once a second; no decision reads it."""

from __future__ import annotations

import math

from gateway.core.dispatch.effects import PoolConfig, PoolView
from gateway.core.dispatch.entitlement import Asking, entitlement
from gateway.core.dispatch.running import RunningCalls
from gateway.core.dispatch.saturation import saturation_ratio
from gateway.core.priority import PriorityClass
from gateway.core.queues.waiting import WaitingCalls
from gateway.core.routing.roster import Roster


def view_of(
    config: PoolConfig,
    waiting: WaitingCalls,
    running: RunningCalls,
    roster: Roster,
    *,
    interactive_wait_s: float | None,
    booked_calls: int,
    foreign_traffic: frozenset[str],
) -> PoolView:
    in_flight = dict(running.in_flight())
    objective_s = config.ttft_objective_s[PriorityClass.INTERACTIVE]
    return PoolView(
        queued={flow: load.calls for flow, load in waiting.load.by_flow.items()},
        in_flight=in_flight,
        replica_in_flight={replica.slug: replica.in_flight for replica in roster},
        replica_slots={replica.slug: replica.slots for replica in roster},
        replica_unstarted={replica.slug: replica.unstarted for replica in roster},
        oldest_arrival_s=waiting.oldest_arrival_s(),
        service=running.service(),
        saturation_ratio=saturation_ratio(roster, interactive_wait_s, objective_s),
        fair_share=_fair_share(waiting, in_flight, roster),
        booked_calls=booked_calls,
        foreign_traffic=foreign_traffic,
    )


def _fair_share(
    waiting: WaitingCalls, in_flight: dict[tuple[str, PriorityClass], int], roster: Roster
) -> dict[str, float]:
    slots = {replica.slug: replica.slots for replica in roster if replica.admits}
    uses: dict[str, float] = {}
    for (tenant, _), calls in in_flight.items():
        uses[tenant] = uses.get(tenant, 0.0) + calls
    eligible = waiting.eligible_of_tenants()
    asking = {
        tenant: Asking(
            waiting.load.weight(tenant),
            math.inf if tenant in eligible else uses[tenant],
            eligible.get(tenant),
        )
        for tenant in eligible.keys() | uses.keys()
    }
    return entitlement(asking, slots)
