"""The fairness scenarios as data: who sends what, what must hold, which naive rule breaks it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from tests.scenarios.max_min import max_min
from tests.scenarios.pool_model import Flow, Run


@dataclass(frozen=True, slots=True)
class Scenario:
    """``violations`` reads a run and says in words what is unfair; empty = fair."""

    name: str
    flows: tuple[Flow, ...]
    replicas: int
    slots: int
    until_s: float
    violations: Callable[[Scenario, Run], list[str]]
    broken_by: tuple[str, ...]  # names in NAIVE_QUEUES


def shares(from_s: float, to_s: float, margin: float) -> Callable[[Scenario, Run], list[str]]:
    """Every backlogged tenant receives its max-min share of what was served, within ``margin``."""

    def check(scenario: Scenario, run: Run) -> list[str]:
        service = run.service(from_s, to_s)
        flows = [flow for flow in scenario.flows if flow.starts_s <= from_s]
        fair = max_min(
            sum(service.values()),
            {flow.tenant: math.inf if flow.backlogged else service[flow.tenant] for flow in flows},
            {flow.tenant: flow.weight for flow in flows},
        )
        return [
            f"{tenant} received {service[tenant]:.0f}, fair is {amount:.0f}"
            for tenant, amount in fair.items()
            if abs(service[tenant] - amount) > margin * amount
        ]

    return check


def served_at_least_every(
    gap_s: float, tenants: tuple[str, ...], from_s: float, to_s: float
) -> Callable[[Scenario, Run], list[str]]:
    def check(scenario: Scenario, run: Run) -> list[str]:
        gaps = {tenant: run.longest_gap_s(tenant, from_s, to_s) for tenant in tenants}
        return [f"{tenant} starved {gap:.1f} s" for tenant, gap in gaps.items() if gap >= gap_s]

    return check


def waits_at_most(wait_s: float, tenant: str) -> Callable[[Scenario, Run], list[str]]:
    def check(scenario: Scenario, run: Run) -> list[str]:
        longest_s = run.longest_wait_s(tenant)
        return [] if longest_s <= wait_s else [f"{tenant} waited {longest_s:.1f} s"]

    return check


ELEPHANT_AND_MOUSE = Scenario(
    name="51 callers against 3, equal weights, one replica",
    flows=(Flow("elephant", 500, 100, threads=51), Flow("mouse", 500, 100, threads=3)),
    replicas=1,
    slots=4,
    until_s=1300,
    violations=shares(100, 1300, 0.01),
    broken_by=("fifo",),
)

WEIGHTS = Scenario(
    name="weights 3 : 1 with different prompt sizes",
    flows=(
        Flow("gold", 2_000, 300, threads=24, weight=3.0),
        Flow("bronze", 200, 100, threads=24, weight=1.0),
    ),
    replicas=1,
    slots=8,
    until_s=6100,
    violations=shares(100, 6100, 0.01),
    broken_by=("fifo",),
)

WRONG_ESTIMATES = Scenario(
    name="one tenant's answers are guessed too short, the other's too long",
    flows=(
        Flow("short", 500, 400, threads=24, expected_output=50),
        Flow("long", 500, 400, threads=24, expected_output=1_500),
    ),
    replicas=1,
    slots=8,
    until_s=3100,
    violations=shares(100, 3100, 0.03),
    broken_by=("no_correction",),
)

RETURN_FROM_IDLE = Scenario(
    name="a tenant returns after 400 s while two are saturated",
    flows=(
        Flow("a", 2_000, 300, threads=96),
        Flow("b", 2_000, 300, threads=48),
        Flow("c", 2_000, 300, threads=48, starts_s=400.0),
    ),
    replicas=1,
    slots=32,
    until_s=700,
    violations=shares(401, 700, 0.03),
    broken_by=("no_lift", "fifo"),
)

PLACEMENT = Scenario(
    name="a tenant limited to one of eight replicas, another returns after 400 s",
    flows=(
        Flow("a", 2_000, 300, threads=64),
        Flow("b", 2_000, 300, threads=64),
        Flow("c", 2_000, 300, threads=16, eligible=frozenset({"r0"})),
        Flow("d", 2_000, 300, threads=64, starts_s=400.0),
    ),
    replicas=8,
    slots=4,
    until_s=700,
    violations=served_at_least_every(5.0, ("a", "b"), 400.0, 700.0),
    broken_by=("least_active_tag", "no_lift", "fifo"),
)

BIG_CALL = Scenario(
    name="a light tenant's 20,000-token call among 50 backlogged tenants",
    flows=(
        *(Flow(f"t{index}", 400, 50, threads=8) for index in range(50)),
        Flow("light", 19_000, 500, every_s=120.0, starts_s=60.0),
    ),
    replicas=8,
    slots=8,
    until_s=310,
    violations=waits_at_most(2.0, "light"),
    broken_by=("finish_time_fair", "fifo"),
)

SCENARIOS = (
    ELEPHANT_AND_MOUSE,
    WEIGHTS,
    WRONG_ESTIMATES,
    RETURN_FROM_IDLE,
    PLACEMENT,
    BIG_CALL,
)
