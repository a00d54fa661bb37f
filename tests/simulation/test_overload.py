"""The overload scenarios on the simulated fleet, in short: batching engines whose steps grow with
what they run, in place of the fixed times of ``tests/scenarios/test_overload.py``."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from benchmarks.overload_fleet import first_returns, highest_wave
from gateway.core.priority import PriorityClass
from gateway.core.reasons import REASONS, Reason
from gateway.simulation.call import Outcome
from gateway.simulation.clients.mix import Mix, mix_calls
from gateway.simulation.clients.workload import OpenLoop
from gateway.simulation.metrics.summary import is_good, quantiles
from gateway.simulation.policy import parse_policy
from gateway.simulation.scenario import Scenario, simulate
from gateway.simulation.simulator import Run
from gateway.simulation.workloads.overload import OVERLOAD_SCENARIOS, REFERENCE_CPS

SEEDS = (11, 12, 13, 14, 15)
SECONDS = 60.0
INTERACTIVE = PriorityClass.INTERACTIVE
FAIR = parse_policy("start_time_fair/bounded")


@cache
def calls(name: str, seed: int = 11) -> list[Outcome]:
    """After the warm-up."""
    scenario = OVERLOAD_SCENARIOS[name]
    run = simulate(scenario, FAIR, seed, seconds=SECONDS)
    return [one for one in run.outcomes if one.call.at_s >= scenario.warm_up_s]


def interactive(name: str, seed: int) -> list[Outcome]:
    return [one for one in calls(name, seed) if one.call.klass is INTERACTIVE and not one.open]


def ttft_p99_s(name: str, seed: int) -> float:
    found = quantiles(o.ttft_s(0.0) for o in interactive(name, seed) if o.completed).p99
    assert found is not None
    return found


def goodput(name: str, seed: int = 11) -> int:
    objectives = OVERLOAD_SCENARIOS[name].objectives
    return sum(is_good(one, objectives) for one in calls(name, seed))


@pytest.mark.parametrize("seed", SEEDS)
def test_twice_the_load_is_hardly_seen_by_interactive(seed: int) -> None:
    assert ttft_p99_s("mixed_2x", seed) <= 2.5 * ttft_p99_s("mixed_1x", seed)
    assert all(one.completed for one in interactive("mixed_2x", seed))
    assert goodput("mixed_2x", seed) >= 0.9 * goodput("mixed_1x", seed)


def test_without_slots_kept_free_interactive_waits_for_calls_to_end() -> None:
    scenario = OVERLOAD_SCENARIOS["mixed_2x"]
    pool = replace(scenario.pool, holdback_ratio=(1.0, 1.0, 1.0))
    run = simulate(replace(scenario, pool=pool), FAIR, 11, seconds=SECONDS)
    naive = quantiles(
        o.ttft_s(0.0)
        for o in run.outcomes
        if o.call.klass is INTERACTIVE and o.completed and o.call.at_s >= scenario.warm_up_s
    )
    assert (naive.p99 or 0.0) > 2.5 * ttft_p99_s("mixed_1x", 11)


@pytest.mark.parametrize("name", ["mixed_5x", "interactive_5x"])
def test_five_times_the_load_keeps_goodput_and_lets_hardly_anybody_wait_in_vain(name: str) -> None:
    assert goodput(name) >= 0.8 * goodput("mixed_1x")
    refused = [one.refused for one in calls(name) if one.refused is not None]
    assert refused.count(Reason.QUEUE_TIMEOUT) <= 0.01 * len(calls(name))
    assert {REASONS[reason].status for reason in refused} == {429}


def burst(scenario: Scenario) -> Run:
    return simulate(scenario, FAIR, 11, seconds=120.0)


@pytest.mark.parametrize("name", ["burst", "burst_stubborn"])
def test_who_was_told_a_time_is_served_then_and_no_second_wave_comes(name: str) -> None:
    run = burst(OVERLOAD_SCENARIOS[name])
    admitted, returned = first_returns(run)
    assert returned > 800
    assert admitted >= 0.95 * returned
    assert highest_wave(one.call.at_s for one in run.outcomes if one.call.attempt) <= 1.2


def test_clients_that_ignore_the_end_of_the_minute_come_all_at_once() -> None:
    """Why the header says ``x-should-retry: false`` when it says 60 s."""
    scenario = OVERLOAD_SCENARIOS["burst_stubborn"]
    run = burst(replace(scenario, pool=replace(scenario.pool, longest_retry_s=60.0)))
    assert highest_wave(one.call.at_s for one in run.outcomes if one.call.attempt) > 3.0


@cache
def rising() -> Run:
    """The reference load for 30 s, then five times as much."""
    profile = ((0.0, REFERENCE_CPS), (30.0, 5.0 * REFERENCE_CPS))
    scenario = replace(
        OVERLOAD_SCENARIOS["mixed_5x"],
        workload=lambda seed, seconds: OpenLoop(mix_calls(Mix(profile), seed, seconds)),
    )
    return simulate(scenario, FAIR, 11, seconds=45.0)


def test_batch_gives_its_slots_back_before_an_interactive_call_is_refused() -> None:
    """But for the one of 20 dispatches that it is owed. In a pool that starts under this load,
    where nothing has been completed that could pay for preemption, some are refused before."""
    outcomes = rising().outcomes
    shed_s = [
        one.refused_s or 0.0
        for one in outcomes
        if one.call.klass is INTERACTIVE and one.refused is Reason.SHED
    ]
    batch = [
        (one.dispatched_s, one.ended_s or 45.0)
        for one in outcomes
        if one.call.klass is PriorityClass.BATCH
        and one.dispatched_s is not None
        and not one.preemptions
        and not one.rule.startswith("batch_share")
    ]
    assert len(shed_s) > 100
    assert not any(from_s <= at_s < to_s for at_s in shed_s for from_s, to_s in batch)


def test_running_batch_calls_are_cut_for_it_and_little_work_is_lost() -> None:
    outcomes = rising().outcomes
    wasted = sum(one.wasted_tokens for one in outcomes)
    done = sum(one.call.input_tokens + one.produced for one in outcomes if one.completed)
    assert sum(one.preemptions for one in outcomes) > 10
    assert 0 < wasted <= 0.03 * done


def test_ten_seconds_after_the_overload_everything_is_as_before() -> None:
    """Row 57: five times the load for 20 s, then half of it."""
    profile = ((0.0, 5.0 * REFERENCE_CPS), (20.0, 0.5 * REFERENCE_CPS))
    scenario = replace(
        OVERLOAD_SCENARIOS["mixed_5x"],
        workload=lambda seed, seconds: OpenLoop(mix_calls(Mix(profile), seed, seconds)),
    )
    run = simulate(scenario, FAIR, 11, seconds=50.0)
    after = [one for one in run.outcomes if 30.0 <= one.call.at_s < 45.0]
    assert [one for one in after if one.refused is not None] == []
    chats = [one for one in after if one.call.klass is INTERACTIVE]
    slowest_s = max(one.ttft_s(50.0) or 0.0 for one in chats)  # of 79
    assert slowest_s <= 1.25 * ttft_p99_s("mixed_1x", 11)
