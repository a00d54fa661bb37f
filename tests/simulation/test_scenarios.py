"""The project's scenarios in short: what Fairway keeps, and that without it they fail.

``benchmarks.verify_simulation`` has them at full size.
"""

from __future__ import annotations

import pytest

from gateway.simulation.metrics.starvation import longest_gap_s, longest_wait_s
from gateway.simulation.metrics.summary import Summary, summary
from gateway.simulation.policy import parse_policy
from gateway.simulation.scenario import simulate
from gateway.simulation.simulator import Run
from gateway.simulation.workloads.scenarios import SCENARIOS

FAIR = "start_time_fair/bounded"
NAIVE = "fifo/round_robin"


def run(name: str, policy: str, seconds: float) -> Run:
    return simulate(SCENARIOS[name], parse_policy(policy), 11, seconds=seconds)


def figures(name: str, policy: str, seconds: float) -> Summary:
    return summary(run(name, policy, seconds), SCENARIOS[name])


def shares(name: str, policy: str, seconds: float) -> dict[str, float]:
    service = figures(name, policy, seconds).service
    return {tenant: amount / sum(service.values()) for tenant, amount in service.items()}


def ttft_p90_s(name: str, policy: str, seconds: float) -> float:
    p90_s = figures(name, policy, seconds).ttft_s.p90
    assert p90_s is not None
    return p90_s


def test_near_the_knee_prefixes_find_their_caches_and_round_robin_drowns() -> None:
    assert ttft_p90_s("uniform", FAIR, 110.0) <= 1.0
    assert ttft_p90_s("uniform", NAIVE, 110.0) >= 10.0


def test_turns_of_a_conversation_find_what_was_said_before() -> None:
    assert figures("multi_turn", FAIR, 190.0).hit_ratio >= 0.8
    assert figures("multi_turn", NAIVE, 190.0).hit_ratio <= 0.6


def test_replicas_of_half_speed_get_less() -> None:
    assert ttft_p90_s("half_speed", FAIR, 180.0) <= 0.5


def test_tenant_that_returns_gets_its_share_and_no_more() -> None:
    fair = shares("return_from_idle", FAIR, 600.0)
    assert all(share == pytest.approx(1 / 3, abs=0.03) for share in fair.values())
    assert shares("return_from_idle", NAIVE, 600.0)["a"] > 0.45


def test_interactive_service_counts_towards_the_share_of_its_tenant() -> None:
    assert shares("classes", FAIR, 500.0)["a"] == pytest.approx(0.5, abs=0.05)
    assert shares("classes", NAIVE, 500.0)["a"] > 0.6


def test_long_contexts_leave_the_others_their_share() -> None:
    assert shares("long_contexts", FAIR, 300.0)["long"] <= 1.25 * 0.2
    assert shares("long_contexts", NAIVE, 300.0)["long"] > 0.8


def test_tenant_that_may_use_one_replica_starves_nobody() -> None:
    outcome = run("placement", FAIR, 520.0)
    assert max(longest_gap_s(outcome, tenant, 400.0) for tenant in ("a", "b")) < 5.0


def test_big_call_of_a_light_tenant_goes_at_once() -> None:
    assert longest_wait_s(run("big_call", FAIR, 190.0), "light") <= 2.0
    assert longest_wait_s(run("big_call", NAIVE, 190.0), "light") > 5.0


def test_holding_short_calls_back_costs_next_to_no_throughput() -> None:
    held = figures("short_calls", FAIR, 30.0).throughput_tps
    assert held >= 0.95 * figures("short_calls", "direct", 30.0).throughput_tps
