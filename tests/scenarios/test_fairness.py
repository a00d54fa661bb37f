"""The fair queue keeps every scenario; each naive rule breaks the one that shows why it is
wrong."""

from __future__ import annotations

from collections import Counter

import pytest

from gateway.core.priority import PriorityClass
from gateway.core.queues.registry import QUEUES
from tests.scenarios.max_min import max_min
from tests.scenarios.naive_queues import NAIVE_QUEUES
from tests.scenarios.pool_model import Flow, PoolModel, Run
from tests.scenarios.scenarios import (
    RETURN_FROM_IDLE,
    SCENARIOS,
    WEIGHTS,
    Scenario,
)

BROKEN = [(scenario, rule) for scenario in SCENARIOS for rule in scenario.broken_by]


def run(scenario: Scenario, queue: str, seed: int = 11) -> Run:
    model = PoolModel(
        scenario.flows, queue=queue, replicas=scenario.replicas, slots=scenario.slots, seed=seed
    )
    return model.run_until(scenario.until_s)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_the_fair_queue_keeps_it(scenario: Scenario) -> None:
    """Rows 59, 60, 61; R19."""
    assert scenario.violations(scenario, run(scenario, "start_time_fair")) == []


@pytest.mark.parametrize(
    ("scenario", "rule"), BROKEN, ids=lambda value: getattr(value, "name", value)
)
def test_a_naive_rule_breaks_it(
    scenario: Scenario, rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(QUEUES, rule, NAIVE_QUEUES[rule])
    assert scenario.violations(scenario, run(scenario, rule)) != []


def test_weights_three_to_one_hold_within_one_percent() -> None:
    """Row 60."""
    service = run(WEIGHTS, "start_time_fair").service(100, WEIGHTS.until_s)
    assert service["gold"] / service["bronze"] == pytest.approx(3.0, abs=0.03)


def test_a_returning_tenant_takes_at_most_its_share_at_once() -> None:
    """Row 61: the first second brings at most the fair share and one call."""
    outcome = run(RETURN_FROM_IDLE, "start_time_fair")
    service = outcome.service(400.0, 401.0)
    largest_call = 2_000 + 2 * 300
    assert service["c"] <= sum(service.values()) / 3 + largest_call


def test_a_changed_weight_moves_the_shares_within_two_seconds() -> None:
    flows = (Flow("a", 256, 256, threads=150), Flow("b", 256, 256, threads=150))
    model = PoolModel(flows, queue="start_time_fair", replicas=3, slots=32, seed=11)
    model.run_until(100.0)
    model.set_weights({"a": 3.0}, 100.0)
    model.run_until(104.0)
    before, after = model.run.service(90.0, 100.0), model.run.service(100.0, 102.0)
    assert before["a"] / before["b"] == pytest.approx(1.0, abs=0.05)
    assert after["a"] / after["b"] == pytest.approx(3.0, abs=0.5)


def test_batch_beside_saturating_interactive_gets_its_twentieth_and_at_most_a_tenth() -> None:
    """R18: one dispatch of 20, one of 10 once its heads are older than 120 s."""
    flows = (
        Flow("a", 256, 64, threads=64, klass=PriorityClass.INTERACTIVE),
        Flow("b", 256, 64, threads=64, klass=PriorityClass.BATCH),
    )
    model = PoolModel(flows, queue="start_time_fair", replicas=1, slots=8, seed=11)
    calls = model.run_until(1000.0).calls
    young = Counter(call.tenant for call in calls if 10.0 < call.dispatched_s < 120.0)
    aged = Counter(call.tenant for call in calls if call.dispatched_s > 200.0)
    assert young["b"] / young.total() == pytest.approx(0.05, abs=0.005)
    assert 0.05 <= aged["b"] / aged.total() <= 0.1


def test_max_min_gives_what_is_left_to_the_thirsty() -> None:
    allocation = max_min(12.0, {"a": 1.0, "b": 100.0, "c": 100.0}, {"a": 1.0, "b": 1.0, "c": 10.0})
    assert allocation == pytest.approx({"a": 1.0, "b": 1.0, "c": 10.0})
