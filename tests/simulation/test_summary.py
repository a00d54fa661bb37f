"""What one run says in one line."""

from __future__ import annotations

import pytest

from gateway.core.priority import PriorityClass
from gateway.core.reasons import Reason
from gateway.simulation.call import Outcome, SimulatedCall
from gateway.simulation.metrics.summary import (
    hit_ratio,
    imbalance,
    is_good,
    quantiles,
    summary,
)
from gateway.simulation.scenario import Objectives
from gateway.simulation.simulator import Run
from gateway.simulation.workloads.scenarios import SCENARIOS

SCENARIO = SCENARIOS["uniform"]  # warm-up 80 s


def outcome(
    at_s: float, first_s: float | None, ended_s: float | None = None, cached: int = 0
) -> Outcome:
    call = SimulatedCall("c", "t", at_s, 100, 11, PriorityClass.INTERACTIVE)
    return Outcome(
        call, "r0", at_s, first_s, ended_s, cached, produced=11 if ended_s is not None else 0
    )


def test_call_without_a_first_token_counts_with_its_age() -> None:
    run = Run([outcome(90.0, None), outcome(95.0, 96.0, 97.0)], ended_s=100.0)
    figures = summary(run, SCENARIO)
    assert (figures.open, figures.completed) == (1, 1)
    assert figures.ttft_s.mean == pytest.approx((10.0 + 1.0) / 2)


def test_calls_of_the_warm_up_do_not_count() -> None:
    run = Run([outcome(10.0, 60.0, 61.0), outcome(90.0, 91.0, 92.0)], ended_s=100.0)
    assert summary(run, SCENARIO).calls == 1


def test_refused_calls_count_by_reason_and_have_no_ttft() -> None:
    shed = outcome(90.0, None)
    shed.refused = Reason.SHED
    figures = summary(Run([shed], ended_s=100.0), SCENARIO)
    assert (figures.refused, figures.open, figures.ttft_s.count) == ({"shed": 1}, 0, 0)


def test_good_is_completed_within_both_objectives() -> None:
    objectives = Objectives(ttft_s=(2.0, 10.0, 300.0), tpot_s=0.1)
    assert is_good(outcome(0.0, 1.0, 2.0), objectives)
    assert not is_good(outcome(0.0, 3.0, 4.0), objectives)
    assert not is_good(outcome(0.0, 1.0, 3.0), objectives)
    assert not is_good(outcome(0.0, 1.0), objectives)


def test_quantiles_are_nearest_ranks() -> None:
    figures = quantiles(float(number) for number in range(1, 101))
    assert (figures.p50, figures.p90, figures.p99, figures.count) == (50.0, 90.0, 99.0, 100)
    assert quantiles([]).p50 is None


def test_hit_ratio_is_of_prompt_tokens_that_were_started() -> None:
    outcomes = [outcome(0.0, 1.0, 2.0, cached=60), outcome(0.0, 1.0, 2.0), outcome(0.0, None)]
    assert hit_ratio(outcomes) == pytest.approx(0.3)


def test_imbalance_is_largest_over_mean_with_idle_replicas_counted() -> None:
    assert imbalance({"a": 10.0, "b": 10.0}, 4) == pytest.approx(2.0)
    assert imbalance({}, 4) == 1.0
