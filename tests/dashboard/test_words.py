"""The sentence under the title says what the figures say."""

from __future__ import annotations

from dashboard.live.audience import MembersOf
from dashboard.numbers import GAP
from dashboard.words import degraded_words, fleet_sentence, tenant_sentence
from gateway.core.events import PoolSecond, ReplicaSecond, TenantSecond
from gateway.core.priority import PriorityClass
from tests.dashboard.test_live_state import NOW, second, state, tenancy


def fleet(*tenants: TenantSecond, **fields: object) -> str:
    facts = state(second(NOW, *tenants, **fields)).facts(tenancy(acme=1, rival=1))
    return fleet_sentence(facts).replace(GAP, " ")


def own(*tenants: TenantSecond) -> str:
    facts = state(second(NOW, *tenants)).facts(tenancy(acme=1, rival=1))
    return tenant_sentence(MembersOf("acme").cut(facts)).replace(GAP, " ")


def test_no_figures_yet() -> None:
    assert fleet_sentence(state().facts(tenancy())).startswith("The gateway has sent no figures")


def test_calm() -> None:
    told = fleet(TenantSecond("acme", calls=5, completed=5))
    assert told == (
        "0 pools, 0 replicas, 2 tenants. Nothing waits, every replica serves, no call was refused."
    )


def test_idle() -> None:
    assert fleet().endswith("Nothing waits; no call ended in the last 5 min.")


def test_a_queue_is_told_by_class_with_its_oldest_call() -> None:
    pool = PoolSecond("p", {PriorityClass.BATCH: 31, PriorityClass.STANDARD: 9}, 180, 192, 1.4)
    assert (
        "p has 180 of 192 slots in use and 31 batch and 9 standard waiting, the oldest 1.40 s."
        in (fleet(pools=(pool,)))
    )


def test_a_replica_that_is_away_is_named() -> None:
    pool = PoolSecond("p", {}, 0, 8, None)
    replicas = (ReplicaSecond("p", "a", "serving", 0, 4), ReplicaSecond("p", "b", "down", 0, 4))
    assert "b of p is away." in fleet(pools=(pool,), replicas=replicas)
    alone = (ReplicaSecond("p", "b", "ejected", 0, 4),)
    assert "No replica of p serves." in fleet(pools=(pool,), replicas=alone)


def test_refusals_name_the_tenants_hit_most() -> None:
    told = fleet(TenantSecond("acme", calls=9, shed=3), TenantSecond("rival", calls=9, shed=5))
    assert "8 calls of Rival and Acme were shed in the last 5 min." in told


def test_a_single_failure_is_singular() -> None:
    assert "1 call of Acme failed in the last 5 min." in fleet(
        TenantSecond("acme", calls=1, failed=1)
    )


def test_degraded_is_said_first() -> None:
    told = fleet(degraded=("quota_store",))
    assert told.startswith("0 pools, 0 replicas, 2 tenants. Degraded: quota_store.")
    assert fleet(degraded=("ledger: no answer",)).endswith("Degraded: ledger.")


def test_a_degraded_part_says_why_and_what_follows() -> None:
    told = degraded_words("ledger: no answer")
    assert told == "ledger: no answer. Meanwhile calls go on, their records wait on disk."
    assert degraded_words("new") == "new."


def test_a_tenant_reads_about_its_own_calls() -> None:
    calm = own(TenantSecond("acme", calls=2, completed=2, ttft_s=(0.2, 0.2)))
    assert calm.startswith("2 calls ended in the last 5 min, half of them began to answer within 2")
    assert calm.endswith("None was limited or shed.")
    assert own(TenantSecond("rival", calls=2)) == "No call ended in the last 5 min."


def test_a_tenant_is_told_that_its_own_limit_was_met() -> None:
    assert "1 call met one of your own limits." in own(TenantSecond("acme", calls=3, limited=1))
