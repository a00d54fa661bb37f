from __future__ import annotations

import time
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gateway.core.events import (
    CallEnded,
    ConfigApplied,
    Degraded,
    PoolSecond,
    ReplicaSecond,
    Restored,
    SummarySecond,
)
from gateway.core.priority import PriorityClass
from gateway.core.reasons import Outcome, Reason
from gateway.core.stages import MEMORY, Stages
from gateway.ledger import LedgerStats
from gateway.metrics import ConnectionFacts, Metrics
from tests.gateway.factories import attempt, call_record


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(tenant_labels=3)


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    """Of the one sample with these labels; None: there is none."""
    found = [
        sample.value
        for family in text_string_to_metric_families(metrics.render().decode())
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    ]
    assert len(found) <= 1
    return found[0] if found else None


def summary(*replicas: ReplicaSecond) -> SummarySecond:
    pool = PoolSecond(
        "p1", {PriorityClass.BATCH: 4}, 3, 32, None, queued_tokens={PriorityClass.BATCH: 900}
    )
    return SummarySecond(0.0, 1, (), (pool,), replicas)


def test_a_completed_call_is_counted_with_its_labels(metrics: Metrics) -> None:
    metrics.on_event(CallEnded(call_record()))
    labels = {
        "tenant": "acme",
        "class": "standard",
        "pool": "sim-pool",
        "outcome": "completed",
        "reason": "",
    }
    assert value(metrics, "fairway_calls_total", **labels) == 1
    assert value(metrics, "fairway_tokens_total", tenant="acme", kind="output") == 20
    assert value(metrics, "fairway_admission_tokens_total", kind="estimated") == 300
    assert value(metrics, "fairway_admission_tokens_total", kind="actual") == 120


def test_a_call_without_a_class_is_counted_as_unclassified(metrics: Metrics) -> None:
    refused = call_record(klass=None, outcome=Outcome.REJECTED, reason=Reason.INVALID_API_KEY)
    metrics.on_event(CallEnded(refused))
    assert value(metrics, "fairway_calls_total", **{"class": "unclassified"}) == 1


def test_a_call_that_reached_no_replica_leaves_no_series_at_zero(metrics: Metrics) -> None:
    def samples() -> set[str]:
        return {line for line in metrics.render().decode().splitlines() if line[0] != "#"}

    before = samples()
    nothing: dict[str, Any] = {"tenant": "", "pool": "", "model": "", "attempts": ()}
    nothing |= dict.fromkeys(("klass", "ttft_s", "tpot_s", "e2e_s", "queue_s"))
    nothing |= {"outcome": Outcome.REJECTED, "reason": Reason.INVALID_API_KEY}
    metrics.on_event(CallEnded(call_record(**nothing)))
    names = {line.split("{")[0] for line in samples() - before}
    assert names == {"fairway_calls_total"}


def test_opentelemetry_series_have_its_names_and_buckets(metrics: Metrics) -> None:
    metrics.on_event(CallEnded(call_record(ttft_s=15.0)))
    bucket = "gen_ai_server_time_to_first_token_seconds_bucket"
    operation = {"gen_ai_operation_name": "chat", "gen_ai_request_model": "sim"}
    assert value(metrics, bucket, le="10.0", **operation) == 0
    assert value(metrics, bucket, le="20.0", **operation) == 1
    for name in (
        "gen_ai_server_request_duration_seconds_count",
        "gen_ai_server_time_per_output_token_seconds_count",
        "gen_ai_client_operation_duration_seconds_count",
        "gen_ai_client_operation_time_to_first_chunk_seconds_count",
    ):
        assert value(metrics, name) == 1, name
    usage = "gen_ai_client_token_usage_sum"
    assert value(metrics, usage, **{"gen_ai_token_type": "input"}) == 100
    assert value(metrics, usage, **{"gen_ai_token_type": "output"}) == 20


def test_a_failed_call_has_no_latency_but_an_error_type(metrics: Metrics) -> None:
    failed = call_record(
        outcome=Outcome.FAILED, reason=Reason.UPSTREAM_ERROR, status=502, completion_tokens=0
    )
    metrics.on_event(CallEnded(failed))
    assert value(metrics, "gen_ai_server_time_to_first_token_seconds_count") == 0
    duration = "gen_ai_server_request_duration_seconds_count"
    assert value(metrics, duration, error_type="upstream_error") == 1


def test_retries_and_the_tokens_they_wasted_are_counted(metrics: Metrics) -> None:
    attempts = (
        attempt(number=1, reason=Reason.UPSTREAM_ERROR, received_tokens=7),
        attempt(number=2, replica="r2", received_tokens=20),
    )
    metrics.on_event(CallEnded(call_record(attempts=attempts)))
    assert value(metrics, "fairway_retries_total", pool="sim-pool") == 1
    assert value(metrics, "fairway_wasted_tokens_total", pool="sim-pool") == 7


def test_a_refusal_because_of_load_is_shed_and_one_of_quota_is_not(metrics: Metrics) -> None:
    refused: dict[str, Any] = {
        "outcome": Outcome.REJECTED,
        "status": 429,
        "attempts": (),
        "queue_s": None,
    }
    metrics.on_event(CallEnded(call_record(reason=Reason.QUEUE_FULL, **refused)))
    metrics.on_event(CallEnded(call_record(reason=Reason.TOKENS_PER_MINUTE, **refused)))
    assert value(metrics, "fairway_shed_total", reason="queue_full") == 1
    assert value(metrics, "fairway_shed_total", reason="tokens_per_minute") is None


def test_tenant_labels_are_bounded_and_nothing_is_lost(metrics: Metrics) -> None:
    """R21: 1,000 tenants, four labels."""
    for number in range(1_000):
        metrics.on_event(CallEnded(call_record(tenant=f"tenant-{number}")))
    samples = [
        sample
        for family in text_string_to_metric_families(metrics.render().decode())
        for sample in family.samples
        if sample.name == "fairway_calls_total"
    ]
    counts = {sample.labels["tenant"]: sample.value for sample in samples}
    assert counts == {"tenant-0": 1, "tenant-1": 1, "tenant-2": 1, "other": 997}


def test_model_names_that_callers_invent_create_no_series(metrics: Metrics) -> None:
    """R21: 100,000 random model names."""
    unknown = call_record(
        tenant="", pool="", outcome=Outcome.REJECTED, reason=Reason.MODEL_NOT_FOUND, attempts=()
    )
    metrics.on_event(CallEnded(unknown))
    size = len(metrics.render())
    for number in range(100_000):
        record = call_record(
            tenant="",
            pool="",
            model=f"invented-{number}",
            outcome=Outcome.REJECTED,
            reason=Reason.MODEL_NOT_FOUND,
            attempts=(),
        )
        metrics.on_event(CallEnded(record))
    assert len(metrics.render()) < size + 100
    assert value(metrics, "fairway_calls_total", reason="model_not_found") == 100_001


def test_gauges_follow_the_summary_and_leave_with_their_replica(metrics: Metrics) -> None:
    metrics.on_event(summary(ReplicaSecond("p1", "r1", "half_open", 3, 4)))
    assert value(metrics, "fairway_queue_depth", pool="p1", **{"class": "batch"}) == 4
    assert value(metrics, "fairway_queue_tokens", pool="p1", **{"class": "batch"}) == 900
    assert value(metrics, "fairway_in_flight", replica="r1") == 3
    assert value(metrics, "fairway_slots", replica="r1") == 4
    state = {"replica": "r1", "fairway_replica_state": "half_open"}
    assert value(metrics, "fairway_replica_state", **state) == 1
    metrics.on_event(summary())
    assert value(metrics, "fairway_in_flight", replica="r1") is None


def test_the_state_of_the_process_is_shown(metrics: Metrics) -> None:
    metrics.event_dropped("live")
    metrics.loop_lag(0.03)
    metrics.on_event(ConfigApplied(0.0, 41))
    metrics.on_event(Degraded(0.0, "ledger", "down"))
    metrics.on_event(Degraded(0.0, "database", "down"))
    metrics.on_event(Restored(0.0, "database"))
    metrics.watch_ledger(lambda: LedgerStats(unwritten_records=2, spooled_bytes=99, dropped=5))
    metrics.watch_active_calls(lambda: 17)
    metrics.watch_connections(lambda: ConnectionFacts(held=8, most=64, pauses=3))
    assert value(metrics, "fairway_events_dropped_total", sink="live") == 1
    assert value(metrics, "fairway_loop_lag_seconds_count") == 1
    assert value(metrics, "fairway_config_version") == 41
    assert value(metrics, "fairway_degraded", part="ledger") == 1
    assert value(metrics, "fairway_degraded", part="database") == 0
    assert value(metrics, "fairway_ledger_dropped_total") == 5
    assert value(metrics, "fairway_ledger_spool_bytes") == 99
    assert value(metrics, "fairway_active_calls") == 17
    assert value(metrics, "fairway_connections") == 8
    assert value(metrics, "fairway_connections_limit") == 64
    assert value(metrics, "fairway_accept_pauses_total") == 3


def test_a_loop_that_stood_still_and_memory_that_is_short_are_shown(metrics: Metrics) -> None:
    """Rows 18, 19"""
    stages = Stages(MEMORY)
    metrics.watch_memory(stages)
    stages.read(0.93)
    metrics.loop_blocked(0.5)
    metrics.loop_blocked(2.0)
    assert value(metrics, "fairway_loop_blocked_seconds_total") == 2.5
    assert value(metrics, "fairway_memory_stage") == 2
    assert value(metrics, "fairway_memory_used_ratio") == 0.93


def test_a_call_costs_little(metrics: Metrics) -> None:
    ended = CallEnded(call_record())
    metrics.on_event(ended)
    before_s = time.process_time()
    for _ in range(2_000):
        metrics.on_event(ended)
    assert (time.process_time() - before_s) / 2_000 < 200e-6
