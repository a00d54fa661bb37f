from __future__ import annotations

import random
from typing import Any

import pytest

from gateway.core.dispatch.effects import PoolView, ReplicaTelemetry
from gateway.core.events import CallEnded, ConfigApplied, Degraded, Restored, SummarySecond
from gateway.core.priority import PriorityClass
from gateway.core.reasons import Outcome, Reason
from gateway.summary import LISTED, REST, SAMPLES, TENANTS, ReplicaLive, SummaryBuilder
from tests.gateway.factories import call_record

STANDARD, BATCH = PriorityClass.STANDARD, PriorityClass.BATCH


def view(**changes: Any) -> PoolView:
    values: dict[str, Any] = {
        "queued": {},
        "in_flight": {},
        "replica_in_flight": {},
        "replica_slots": {},
        "oldest_arrival_s": None,
        "service": {},
    }
    return PoolView(**(values | changes))


def tick(
    builder: SummaryBuilder, pool: PoolView | None = None, *replicas: ReplicaLive
) -> SummarySecond:
    pools = {"p1": pool} if pool else {}
    return builder.tick(1_000.0, 50.0, pools, replicas, {("p1", BATCH): 700, ("p2", BATCH): 1})


@pytest.fixture
def builder() -> SummaryBuilder:
    return SummaryBuilder(random.Random(1))


def refused(reason: Reason, outcome: Outcome = Outcome.REJECTED, status: int = 429) -> CallEnded:
    return CallEnded(call_record(outcome=outcome, reason=reason, status=status, ttft_s=None))


def test_a_second_holds_what_ended_in_it_and_the_next_one_starts_empty(
    builder: SummaryBuilder,
) -> None:
    builder.observe(CallEnded(call_record(ttft_s=0.25)))
    builder.observe(CallEnded(call_record(ttft_s=0.5)))
    [acme] = tick(builder).tenants
    assert (acme.tenant, acme.calls, acme.completed) == ("acme", 2, 2)
    assert (acme.prompt_tokens, acme.cached_tokens, acme.completion_tokens) == (200, 80, 40)
    assert acme.ttft_s == (0.25, 0.5)
    assert tick(builder).tenants == ()


@pytest.mark.parametrize(
    ("ended", "counted"),
    [
        (refused(Reason.QUEUE_FULL), "shed"),
        (refused(Reason.GATEWAY_FULL, status=503), "shed"),
        (refused(Reason.QUEUE_TIMEOUT, Outcome.EVICTED), "shed"),
        (refused(Reason.DEADLINE, Outcome.EVICTED), "shed"),
        (refused(Reason.TOKENS_PER_MINUTE), "limited"),
        (refused(Reason.CREDIT_EXHAUSTED), "limited"),
        (refused(Reason.UPSTREAM_ERROR, Outcome.FAILED, 502), "failed"),
        (refused(Reason.CLIENT_GONE, Outcome.EVICTED, 499), None),
        (refused(Reason.CLIENT_GONE, Outcome.ABORTED, 499), None),
        (refused(Reason.UPSTREAM_REFUSED, Outcome.FAILED, 400), None),
        (refused(Reason.INVALID_REQUEST, status=400), None),
    ],
)
def test_each_end_is_counted_as_what_it_is(
    builder: SummaryBuilder, ended: CallEnded, counted: str | None
) -> None:
    builder.observe(ended)
    [acme] = tick(builder).tenants
    counts = {name: getattr(acme, name) for name in ("completed", "shed", "limited", "failed")}
    bad = {name for name, count in counts.items() if count and name != "failed"}
    assert (counts.get(counted or "", 0) == 1) == (counted is not None)
    assert bad <= {counted}


def test_queue_flight_and_service_come_from_the_pools(builder: SummaryBuilder) -> None:
    tick(builder, view(service={"acme": 100.0}))
    second = tick(
        builder,
        view(
            queued={("acme", STANDARD): 2, ("acme", BATCH): 3},
            in_flight={("acme", STANDARD): 4},
            replica_in_flight={"r1": 4},
            replica_slots={"r1": 8},
            oldest_arrival_s=47.0,
            service={"acme": 130.0},
        ),
    )
    [acme] = second.tenants
    assert (acme.queued, acme.in_flight, acme.service_cost) == (5, 4, 30.0)
    [pool] = second.pools
    assert (pool.queued, pool.in_flight, pool.slots) == ({STANDARD: 2, BATCH: 3}, 4, 8)
    assert (pool.oldest_wait_s, pool.queued_tokens) == (3.0, {BATCH: 700})


def test_telemetry_that_is_absent_is_none_and_not_zero(builder: SummaryBuilder) -> None:
    pool = view(replica_in_flight={"r1": 1}, replica_slots={"r1": 8})
    sample = ReplicaTelemetry("r1", at_s=49.5, running=3, kv_ratio=0.5)
    second = tick(
        builder,
        pool,
        ReplicaLive("p1", "r1", "serving", sample),
        ReplicaLive("p1", "r2", "starting"),
        ReplicaLive("gone", "r3", "serving"),
    )
    r1, r2 = second.replicas
    assert (r1.in_flight, r1.slots, r1.telemetry_age_s) == (1, 8, 0.5)
    assert (r1.running, r1.waiting, r1.kv_ratio) == (3, None, 0.5)
    assert (r2.state, r2.telemetry_age_s, r2.running) == ("starting", None, None)


def test_incidents_are_listed_with_a_bound_and_what_is_left_out_is_counted(
    builder: SummaryBuilder,
) -> None:
    builder.observe(CallEnded(call_record()))
    builder.observe(refused(Reason.CLIENT_GONE, Outcome.ABORTED, 499))
    for _ in range(LISTED + 7):
        builder.observe(refused(Reason.QUEUE_FULL))
    second = tick(builder)
    assert {record.reason for record in second.ended} == {Reason.QUEUE_FULL}
    assert (len(second.ended), second.ended_left_out) == (LISTED, 7)


def test_tenants_of_one_second_are_bounded_and_sums_stay_true(builder: SummaryBuilder) -> None:
    for number in range(TENANTS + 20):
        builder.observe(CallEnded(call_record(tenant=f"t{number}")))
    second = tick(builder)
    assert len(second.tenants) == TENANTS + 1
    assert second.tenants[-1].tenant == REST
    assert sum(tenant.calls for tenant in second.tenants) == TENANTS + 20


def test_latencies_of_one_second_are_a_fair_sample(builder: SummaryBuilder) -> None:
    for number in range(10 * SAMPLES):
        builder.observe(CallEnded(call_record(ttft_s=float(number))))
    [acme] = tick(builder).tenants
    assert (len(acme.ttft_s), acme.ttft_left_out) == (SAMPLES, 9 * SAMPLES)
    middle = sorted(acme.ttft_s)[SAMPLES // 2]
    assert 0.4 < middle / (10 * SAMPLES) < 0.6


def test_degraded_parts_and_the_version_are_in_every_second(builder: SummaryBuilder) -> None:
    builder.observe(ConfigApplied(0.0, 12))
    builder.observe(Degraded(0.0, "ledger", "down"))
    builder.observe(Degraded(0.0, "database", "down"))
    builder.observe(Restored(0.0, "database"))
    for _ in range(2):
        second = tick(builder)
        assert (second.config_version, second.degraded) == (12, ("ledger",))


def test_a_pool_that_is_made_again_starts_from_nothing(builder: SummaryBuilder) -> None:
    tick(builder, view(service={"acme": 500.0}))
    tick(builder)
    second = tick(builder, view(service={"acme": 5.0}))
    assert second.tenants[0].service_cost == 5.0


def test_reasons_are_counted_beyond_what_is_listed(builder: SummaryBuilder) -> None:
    for _ in range(LISTED + 7):
        builder.observe(refused(Reason.SHED, Outcome.EVICTED))
    builder.observe(refused(Reason.CLIENT_GONE, Outcome.EVICTED))
    [acme] = tick(builder).tenants
    assert acme.reasons == {Reason.SHED: LISTED + 7}


def test_calls_are_judged_by_the_objective_of_their_pool() -> None:
    builder = SummaryBuilder(random.Random(1), {"p1": 0.3}.get)
    for ttft_s in (0.25, 0.3, 0.5):
        builder.observe(CallEnded(call_record(ttft_s=ttft_s, pool="p1")))
    builder.observe(CallEnded(call_record(ttft_s=9.0, pool="p2")))
    second = tick(builder, view())
    assert (second.tenants[0].judged, second.tenants[0].within_objective) == (3, 2)
    assert second.pools[0].ttft_objective_s == 0.3


def test_entitled_slots_of_all_pools_are_one_number(builder: SummaryBuilder) -> None:
    pools = {name: view(fair_share={"acme": 3.5}) for name in ("p1", "p2")}
    second = builder.tick(1_000.0, 50.0, pools, (), {})
    assert second.tenants[0].entitled_slots == 7.0
