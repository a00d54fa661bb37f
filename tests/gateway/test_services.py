from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from django.db import DatabaseError, connection, transaction

from gateway.models import Alias, Pool, Replica, ReplicaSetting
from gateway.sealing import Unsealable, seal, unseal
from gateway.services import aliases, parameters, pools, replicas
from gateway.services.terms import PoolTerms, ReplicaTerms
from tenants.errors import AlreadyExists, Invalid, NotFound, TenancyError
from tenants.models import AuditEntry
from tenants.snapshot import current_version
from tests.factories import TESTER

pytestmark = pytest.mark.django_db
TERMS = ReplicaTerms(kind="vllm", base_url="http://10.0.0.1:8000")


@pytest.fixture
def pool() -> Pool:
    return pools.create(slug="p1", terms=PoolTerms(), actor=TESTER)


@pytest.fixture
def replica(pool: Pool) -> Replica:
    return replicas.create(slug="r1", pool="p1", terms=TERMS, api_key="s3cret", actor=TESTER)


WRITES: dict[str, Callable[[], object]] = {
    "pool.create": lambda: pools.create(slug="p2", terms=PoolTerms(), actor=TESTER),
    "pool.change": lambda: pools.change(
        slug="p1", changes={"routing": "round_robin"}, actor=TESTER, why="test"
    ),
    "alias.assign": lambda: aliases.assign(name="m1", pool="p1", actor=TESTER),
    "replica.create": lambda: replicas.create(slug="r2", pool="p1", terms=TERMS, actor=TESTER),
    "replica.change": lambda: replicas.change(slug="r1", changes={"slots": 9}, actor=TESTER),
    "replica.drain": lambda: replicas.drain(slug="r1", actor=TESTER),
    "replica.disable": lambda: replicas.disable(slug="r1", actor=TESTER),
    "replica.remove": lambda: replicas.remove(slug="r1", actor=TESTER),
    "parameter.set": lambda: parameters.set_value(
        name="queue_calls_per_tenant", pool="p1", value=10, actor=TESTER
    ),
}


@pytest.mark.parametrize("action", WRITES)
def test_every_write_raises_the_version_once_and_leaves_one_audit_row(
    replica: Replica, action: str
) -> None:
    version, entries = current_version(), AuditEntry.objects.count()
    WRITES[action]()
    assert current_version() == version + 1
    assert AuditEntry.objects.count() == entries + 1
    latest = AuditEntry.objects.latest("id")
    assert (latest.action, latest.config_version) == (action, version + 1)


@pytest.mark.parametrize(
    "terms",
    [
        PoolTerms(routing="psychic"),
        PoolTerms(input_per_mtok=-1),
        PoolTerms(output_per_mtok=10**13),
        PoolTerms(context_tokens=-5),
        PoolTerms(endpoints=()),
        PoolTerms(endpoints=("chat",)),
        PoolTerms(capabilities=("telepathy",)),
        PoolTerms(ttft_objective_s=0.0),
        PoolTerms(tpot_objective_s=float("nan")),
    ],
)
def test_a_pool_with_absurd_terms_is_refused_and_nothing_is_written(terms: PoolTerms) -> None:
    version = current_version()
    with pytest.raises(Invalid):
        pools.create(slug="p1", terms=terms, actor=TESTER)
    assert (Pool.objects.count(), current_version()) == (0, version)


@pytest.mark.parametrize(
    "terms",
    [
        replace(TERMS, kind="abacus"),
        replace(TERMS, base_url="http://169.254.169.254"),
        replace(TERMS, slots=0),
        replace(TERMS, slots=10**6),
        replace(TERMS, kv_tokens=0),
    ],
)
def test_a_replica_with_absurd_terms_is_refused(pool: Pool, terms: ReplicaTerms) -> None:
    with pytest.raises(Invalid):
        replicas.create(slug="r1", pool="p1", terms=terms, actor=TESTER)


def test_unknown_names_say_which_are_known(pool: Pool) -> None:
    with pytest.raises(Invalid, match="Known: bounded, least_cost, least_inflight"):
        pools.change(slug="p1", changes={"routing": "psychic"}, actor=TESTER)
    with pytest.raises(NotFound, match=r"manage\.py pool list"):
        replicas.create(slug="r1", pool="elsewhere", terms=TERMS, actor=TESTER)


@pytest.mark.parametrize("table", ["gateway_pool", "gateway_replica"])
def test_a_slug_never_changes(replica: Replica, table: str) -> None:
    with pytest.raises(DatabaseError, match="a slug never changes"), transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(f"UPDATE {table} SET slug = 'other'")


def test_the_api_key_of_a_replica_is_encrypted_and_never_shown(replica: Replica) -> None:
    assert "s3cret" not in replica.sealed_api_key
    assert unseal(replica.sealed_api_key) == "s3cret"
    replicas.change(slug="r1", changes={}, api_key="other", actor=TESTER)
    shown = [str(entry.before) + str(entry.after) for entry in AuditEntry.objects.all()]
    assert not any("s3cret" in text or "other" in text for text in shown)
    after = AuditEntry.objects.latest("id").after
    assert after is not None
    assert after["api_key"] == "replaced"


def test_a_changed_address_is_checked_like_a_new_one(replica: Replica) -> None:
    with pytest.raises(Invalid, match="no replica may be"):
        replicas.change(slug="r1", changes={"base_url": "http://169.254.169.254"}, actor=TESTER)
    replicas.change(slug="r1", changes={"base_url": "http://10.0.0.2:80/v1"}, actor=TESTER)
    assert Replica.objects.get().base_url == "http://10.0.0.2:80"


def test_a_change_keeps_the_api_key_unless_a_new_one_is_given(replica: Replica) -> None:
    replicas.change(slug="r1", changes={"slots": 4}, actor=TESTER)
    assert unseal(Replica.objects.get().sealed_api_key) == "s3cret"
    replicas.change(slug="r1", changes={}, api_key="", actor=TESTER)
    assert Replica.objects.get().sealed_api_key == ""


@pytest.mark.parametrize("key", ["with space", "line\nbreak", "ключ", "x" * 3_000])
def test_an_api_key_that_no_header_can_carry_is_refused_without_repeating_it(
    pool: Pool, key: str
) -> None:
    with pytest.raises(Invalid) as refused:
        replicas.create(slug="r1", pool="p1", terms=TERMS, api_key=key, actor=TESTER)
    assert key not in str(refused.value)


def test_what_was_sealed_under_another_secret_cannot_be_read() -> None:
    sealed = seal("word")
    with pytest.raises(Unsealable):
        unseal(sealed[:-4] + "AAAA")


def test_a_replica_goes_through_its_states_and_the_same_twice_is_refused(
    replica: Replica,
) -> None:
    replicas.drain(slug="r1", actor=TESTER)
    with pytest.raises(AlreadyExists):
        replicas.drain(slug="r1", actor=TESTER)
    replicas.disable(slug="r1", actor=TESTER)
    replicas.enable(slug="r1", actor=TESTER)
    assert Replica.objects.get().state == "enabled"


def test_a_pool_is_switched_as_a_whole(replica: Replica) -> None:
    replicas.create(slug="r2", pool="p1", terms=TERMS, actor=TESTER)
    replicas.drain(slug="r1", actor=TESTER)
    assert pools.switch(slug="p1", state=ReplicaSetting.DRAINING, actor=TESTER) == 1
    assert set(Replica.objects.values_list("state", flat=True)) == {"draining"}


def test_a_pool_in_use_cannot_be_removed(replica: Replica) -> None:
    aliases.assign(name="m1", pool="p1", actor=TESTER)
    removals: tuple[Callable[[], object], ...] = (
        lambda: replicas.remove(slug="r1", actor=TESTER),
        lambda: aliases.remove(name="m1", actor=TESTER),
    )
    for remove in removals:
        with pytest.raises(Invalid, match="still has replicas or models"):
            pools.remove(slug="p1", actor=TESTER)
        remove()
    pools.remove(slug="p1", actor=TESTER)
    assert not Pool.objects.exists()


def test_a_model_name_moves_to_another_pool(pool: Pool) -> None:
    pools.create(slug="p2", terms=PoolTerms(), actor=TESTER)
    aliases.assign(name="org/Model-7B:v1", pool="p1", actor=TESTER)
    aliases.assign(name="org/Model-7B:v1", pool="p2", upstream_model="m", actor=TESTER)
    row = Alias.objects.select_related("pool").get()
    assert (row.pool.slug, row.upstream_model) == ("p2", "m")
    latest = AuditEntry.objects.latest("id")
    assert latest.before is not None
    assert latest.after is not None
    assert (latest.before["pool"], latest.after["pool"]) == ("p1", "p2")


@pytest.mark.parametrize("name", ["", " ", "-x", "a b", "a\n", "ä", "x" * 101, "a\x00"])
def test_odd_model_names_are_refused(pool: Pool, name: str) -> None:
    with pytest.raises(TenancyError):
        aliases.assign(name=name, pool="p1", actor=TESTER)


def test_parameters_are_known_bounded_and_can_be_cleared(pool: Pool) -> None:
    for name, value in (("queue_calls", 5), ("queue_calls_per_tenant", 0)):
        with pytest.raises(Invalid):
            parameters.set_value(name=name, pool="p1", value=value, actor=TESTER)
    parameters.set_value(name="queue_calls_per_tenant", value=7, actor=TESTER)
    parameters.clear(name="queue_calls_per_tenant", actor=TESTER)
    with pytest.raises(NotFound):
        parameters.clear(name="queue_calls_per_tenant", actor=TESTER)


@pytest.mark.parametrize(
    "write",
    [
        lambda: pools.change(slug="p1", changes={}, actor=TESTER),
        lambda: replicas.change(slug="r1", changes={"slots": 32}, actor=TESTER),
        lambda: aliases.assign(name="m1", pool="p1", actor=TESTER),
        lambda: parameters.set_value(name="queue_calls_per_tenant", value=10, actor=TESTER),
    ],
)
def test_a_change_that_changes_nothing_leaves_no_trace(
    replica: Replica, write: Callable[[], object]
) -> None:
    aliases.assign(name="m1", pool="p1", actor=TESTER)
    parameters.set_value(name="queue_calls_per_tenant", value=10, actor=TESTER)
    version, entries = current_version(), AuditEntry.objects.count()
    write()
    assert (current_version(), AuditEntry.objects.count()) == (version, entries)
