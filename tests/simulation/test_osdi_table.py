"""The simulator against what was measured on an A10G, and the gateway against the engine's own
scheduler."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from statistics import fmean

import pytest

from gateway.simulation.metrics.service_difference import served_calls, service_between
from gateway.simulation.metrics.summary import Summary, summary
from gateway.simulation.policy import parse_policy
from gateway.simulation.scenario import Scenario, simulate
from gateway.simulation.workloads.published import arena, suite_scenarios

ARENA = Path(__file__).parent / "traces" / "arena.csv.gz"
FAIR = "start_time_fair/bounded"
TWO_U = 40_000.0


@cache
def run(scenario: str, policy: str, seed: int = 11) -> Summary:
    known: dict[str, Scenario] = suite_scenarios() | {
        "arena": arena(ARENA),
        "arena_jittered": arena(ARENA, jitter_s=1.0),
    }
    return summary(simulate(known[scenario], parse_policy(policy), seed), known[scenario])


@pytest.mark.parametrize(
    ("policy", "served", "throughput_tps", "average"),
    [
        ("direct", 1_500, 777, 433.5),
        ("engine/lcf", 1_500, 778, 323.8),
        ("engine/vtc", 1_500, 779, 251.7),
        ("engine/oracle", 1_500, 781, 227.5),
        ("rpm/5", 581, 340, 83.6),
        ("rpm/20", 1_158, 694, 195.7),
        ("rpm/30", 1_324, 747, 309.4),
    ],
)
def test_arena_table_of_the_a10g_is_met(
    policy: str, served: int, throughput_tps: float, average: float
) -> None:
    """Throughput within 10 %, average difference within 20 % of the published row."""
    figures = run("arena", policy)
    assert figures.completed == pytest.approx(served, abs=3)
    assert figures.throughput_tps == pytest.approx(throughput_tps, rel=0.10)
    assert figures.difference is not None
    assert figures.difference.average == pytest.approx(average, rel=0.20)


@pytest.mark.parametrize("policy", ["engine/vtc", FAIR])
def test_accumulated_difference_of_backlogged_clients_stays_within_two_u(policy: str) -> None:
    accumulated = run("overload", policy).accumulated
    assert accumulated is not None
    assert accumulated <= 9_050 < TWO_U


def test_first_come_breaks_two_u() -> None:
    accumulated = run("overload-600", "direct").accumulated
    assert accumulated is not None
    assert accumulated > 5 * TWO_U


def test_weights_of_one_to_four_give_their_shares_while_all_are_backlogged() -> None:
    """First come, first served gives equal shares to equal rates."""
    fair, first_come = _shares(FAIR), _shares("direct")
    assert fair == pytest.approx([1.0, 2.0, 3.0, 4.0], rel=0.02)
    assert first_come == pytest.approx([1.0] * 4, rel=0.05)


def test_gateway_before_a_first_come_engine_is_as_fair_as_a_scheduler_in_the_engine() -> None:
    """One of the twelve jittered runs; ``benchmarks.verify_simulation`` has all of them."""
    own, engine, first_come = (
        [run("arena_jittered", policy, seed) for seed in (2,)]
        for policy in (FAIR, "engine/vtc", "direct")
    )
    assert _average(own) <= 1.15 * _average(engine)
    assert _average(own) < 0.75 * _average(first_come)
    assert fmean(one.throughput_tps for one in own) >= 0.97 * fmean(
        one.throughput_tps for one in first_come
    )
    assert not any(one.refused for one in own)


def _average(summaries: list[Summary]) -> float:
    return fmean(one.difference.average for one in summaries if one.difference)


def _shares(policy: str) -> list[float]:
    """Service between 60 and 330 s relative to the first client's."""
    scenario = suite_scenarios()["weights-equal-rates"]
    outcomes = simulate(scenario, parse_policy(policy), 11, seconds=150.0).outcomes
    service = service_between(served_calls(outcomes), 60.0, 330.0)
    return [service[client] / service["client-0"] for client in sorted(service)]
