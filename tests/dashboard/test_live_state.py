"""From events to facts, and what of them a tenant may see."""

from __future__ import annotations

import msgspec
import pytest

from dashboard.live.audience import MembersOf
from dashboard.live.facts import FleetFacts, Objective, Policy, Tenancy
from dashboard.live.state import LiveState
from dashboard.settings import DashboardSettings
from gateway.core.events import (
    ConfigApplied,
    Degraded,
    PoolSecond,
    Restored,
    SummarySecond,
    TenantSecond,
)
from gateway.core.priority import PriorityClass
from gateway.core.reasons import Outcome, Reason
from tests.fakes.live_events import LiveEvents

NOW = 1_700_000_000.0


def tenancy(**weights: float) -> Tenancy:
    policies = {
        slug.replace("_", "-"): Policy(
            slug.replace("_", "-"), slug.title(), weight, PriorityClass.INTERACTIVE, False, position
        )
        for position, (slug, weight) in enumerate(weights.items())
    }
    return Tenancy(1, policies)


def second(at: float = NOW, *tenants: TenantSecond, **fields: object) -> SummarySecond:
    values: dict[str, object] = {
        "at": at,
        "config_version": 1,
        "tenants": tenants,
        "pools": (),
        "replicas": (),
    }
    return SummarySecond(**(values | fields))  # type: ignore[arg-type]


def state(*events: object) -> LiveState:
    live = LiveState(DashboardSettings())
    for event in events:
        live.take(event)  # type: ignore[arg-type]
    return live


def row(facts: FleetFacts, slug: str):  # type: ignore[no-untyped-def]
    return next(one for one in facts.tenants if one.policy.slug == slug)


def test_before_the_first_summary_nothing_is_known() -> None:
    facts = state().facts(tenancy(acme=1))
    assert facts.at is None
    assert facts.total is None
    assert row(facts, "acme").ttft.p50_s is None


def test_share_received_stands_beside_the_fair_share() -> None:
    live = state(
        second(
            NOW,
            TenantSecond("acme", service_cost=300, in_flight=1),
            TenantSecond("rival", service_cost=100, in_flight=1),
        )
    )
    facts = live.facts(tenancy(acme=3, rival=1, idle=5))
    assert row(facts, "acme").share == pytest.approx(0.75)
    assert row(facts, "acme").fair_share == pytest.approx(0.75)
    assert row(facts, "idle").fair_share is None


def test_fair_share_is_what_the_dispatchers_entitle_to() -> None:
    """A tenant that asks for little leaves the rest of its weight to the others."""
    live = state(
        second(
            NOW,
            TenantSecond("acme", service_cost=1, in_flight=1, entitled_slots=2),
            TenantSecond("rival", service_cost=9, in_flight=8, entitled_slots=6),
        )
    )
    facts = live.facts(tenancy(acme=3, rival=1))
    assert (row(facts, "acme").fair_share, row(facts, "rival").fair_share) == (0.25, 0.75)


def test_share_now_forgets_after_three_seconds_what_the_steady_share_keeps() -> None:
    halves = [
        second(NOW + n, *(TenantSecond(slug, service_cost=100) for slug in ("acme", "rival")))
        for n in range(5)
    ]
    moved = [
        second(NOW + 5 + n, TenantSecond("acme", service_cost=300), TenantSecond("rival"))
        for n in range(3)
    ]
    acme = row(state(*halves, *moved).facts(tenancy(acme=1, rival=1)), "acme")
    assert acme.share == 1.0
    assert acme.steady_share == pytest.approx(1_400 / 1_900)


def test_attainment_is_of_calls_in_pools_with_an_objective() -> None:
    live = state(second(NOW, TenantSecond("acme", calls=9, judged=4, within_objective=3)))
    facts = live.facts(tenancy(acme=1, rival=1))
    assert row(facts, "acme").attained_ratio == 0.75
    assert row(facts, "rival").attained_ratio is None


def test_objectives_are_those_of_the_pools_else_the_installations_own() -> None:
    pools = tuple(
        PoolSecond(name, {}, 0, 1, None, ttft_objective_s=ttft_s)
        for name, ttft_s in (("a", 0.8), ("b", None), ("c", 0.8), ("d", 3.0))
    )
    facts = state(second(NOW, pools=pools)).facts(tenancy())
    assert facts.objectives == (Objective(0.8, ("a", "c")), Objective(3.0, ("d",)))
    assert [one.ttft_s for one in state(second(NOW)).facts(tenancy()).objectives] == [2.0]


def test_hit_rate_is_of_reported_cached_tokens() -> None:
    live = state(second(NOW, TenantSecond("acme", prompt_tokens=1000, cached_tokens=740)))
    facts = live.facts(tenancy(acme=1, rival=1))
    assert row(facts, "acme").hit_ratio == pytest.approx(0.74)
    assert row(facts, "rival").hit_ratio is None


def test_a_small_sample_is_told() -> None:
    live = state(second(NOW, TenantSecond("acme", ttft_s=(0.2,) * 99)))
    assert row(live.facts(tenancy(acme=1)), "acme").ttft.is_small
    live.take(second(NOW + 1, TenantSecond("acme", ttft_s=(0.2,))))
    assert not row(live.facts(tenancy(acme=1)), "acme").ttft.is_small


def test_equal_refusals_are_one_entry_with_a_count() -> None:
    events = LiveEvents()
    records = [
        events.record("acme", PriorityClass.BATCH, Reason.SHED, Outcome.EVICTED, NOW)
        for _ in range(18)
    ]
    facts = state(second(NOW, ended=tuple(records))).facts(tenancy(acme=1))
    assert [(one.times, one.reason) for one in facts.incidents] == [(18, Reason.SHED)]
    assert facts.incidents[0].message == records[-1].message


def test_reasons_of_a_tenant_cover_the_same_time_as_its_counts() -> None:
    old = second(NOW, TenantSecond("acme", reasons={Reason.SHED: 5}))
    new = second(NOW + 400, TenantSecond("acme", reasons={Reason.SHED: 2, Reason.QUEUE_FULL: 3}))
    reasons = row(state(old, new).facts(tenancy(acme=1)), "acme").reasons
    assert reasons == ((Reason.QUEUE_FULL, 3), (Reason.SHED, 2))


def test_other_messages_of_one_reason_are_counted_beside_the_newest() -> None:
    said = ("6 of 5 in use, free in 1.5 s.", "The pool is full.", "7 of 5 in use, free in 2 s.")
    one = LiveEvents().record("acme", PriorityClass.BATCH, Reason.SHED, Outcome.EVICTED, NOW)
    records = tuple(msgspec.structs.replace(one, message=text) for text in said)
    (incident,) = state(second(NOW, ended=records)).facts(tenancy(acme=1)).incidents
    assert (incident.times, incident.message, incident.others) == (3, said[-1], 1)


def test_a_caller_that_hung_up_is_no_incident() -> None:
    events = LiveEvents()
    words = events.record("acme", PriorityClass.BATCH, Reason.SHED, Outcome.ABORTED, NOW)
    gone = msgspec.structs.replace(words, reason=Reason.CLIENT_GONE)
    assert not state(second(NOW, ended=(gone,))).facts(tenancy(acme=1)).incidents


def test_degraded_parts_come_and_go() -> None:
    live = state(Degraded(NOW, "quota_store", "no answer for 1 s"))
    assert live.facts(tenancy()).degraded == ("quota_store: no answer for 1 s",)
    live.take(second(NOW, degraded=("quota_store",)))
    assert live.facts(tenancy()).degraded == ("quota_store: no answer for 1 s",)
    live.take(Restored(NOW + 5, "quota_store"))
    live.take(second(NOW + 5))
    assert live.facts(tenancy()).degraded == ()


def test_an_applied_configuration_is_known_before_the_next_summary() -> None:
    live = state(second(NOW), ConfigApplied(NOW, 7))
    assert live.facts(tenancy()).config_version == 7


def test_a_tenant_sees_nothing_of_another() -> None:
    """S12: the facts for a tenant hold neither names nor numbers of others."""
    events = LiveEvents()
    live = state(*events.history(NOW, 60))
    fleet = live.facts(tenancy(acme=2, rival=1, initech=1, nightly_eval=1))
    own = MembersOf("acme").cut(fleet)
    told = repr(own).replace("Acme", "")
    for other in ("rival", "initech", "nightly", "gpu-a1", "cpu-1"):
        assert other not in told.lower()
    assert own.own is not None
    assert own.own.calls > 0
    assert own.total is None
