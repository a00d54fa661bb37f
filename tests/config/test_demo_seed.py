"""The first installation: made once, kept afterwards, mended where something is missing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from config import demo_seed
from gateway import selectors as fleet
from gateway.services import pools, replicas
from gateway.services.terms import ReplicaTerms
from tenants import snapshot
from tenants.actors import Actor
from tenants.models import AuditEntry
from tenants.services import keys

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def loopback(settings: Any) -> None:
    settings.FAIRWAY_GATEWAY = replace(settings.FAIRWAY_GATEWAY, replica_networks=("127.0.0.0/8",))


def wish(known: dict[str, Any], port: int = 9001) -> dict[str, Any]:
    server = {"slug": "r1", "kind": "llamacpp", "base_url": f"http://127.0.0.1:{port}", "slots": 4}
    pool = {"slug": "p1", "model": "m", "upstream_model": "m", "context_tokens": 2048}
    return {
        "base_url": "http://127.0.0.1:8000",
        "known": known,
        "pools": [{**pool, "servers": [server]}],
    }


def test_a_second_start_changes_nothing() -> None:
    first = demo_seed.seed(wish({}))
    written = AuditEntry.objects.count()
    assert demo_seed.seed(wish(first)) == first
    assert AuditEntry.objects.count() == written


def test_every_tenant_gets_a_key_that_the_gateway_knows_and_finite_limits() -> None:
    facts = demo_seed.seed(wish({}))
    known = snapshot.load()
    for tenant in facts["tenants"]:
        assert tenant["api_key"][3:11] in known.keys
        limits = {limit.meter for limit in known.tenants[tenant["slug"]].limits}
        assert {"tpm", "rpm", "concurrent"} <= limits


def test_a_key_that_no_longer_works_is_issued_again() -> None:
    first = demo_seed.seed(wish({}))
    lost = first["tenants"][0]["api_key"]
    keys.disable(slug="acme", key_id=lost[3:11], actor=Actor.command("test"))
    again = demo_seed.seed(wish(first))
    assert again["tenants"][0]["api_key"] != lost
    assert again["tenants"][1:] == first["tenants"][1:]


def test_a_lost_file_gives_new_passwords_and_keys() -> None:
    first = demo_seed.seed(wish({}))
    again = demo_seed.seed(wish({}))
    assert again["operator"]["password"] != first["operator"]["password"]


def test_a_replica_that_moved_is_followed() -> None:
    first = demo_seed.seed(wish({}))
    demo_seed.seed(wish(first, port=9002))
    assert fleet.replica("r1").base_url == "http://127.0.0.1:9002"


def test_replicas_of_an_earlier_run_go_and_an_operators_own_stay() -> None:
    earlier = wish({})
    servers = earlier["pools"][0]["servers"]
    servers.append({**servers[0], "slug": "r2"})
    first = demo_seed.seed(earlier)
    terms = ReplicaTerms(kind="openai", base_url="http://127.0.0.1:9009")
    replicas.create(slug="own", pool="p1", terms=terms, actor=Actor.user("olga"))
    demo_seed.seed(wish(first))
    assert {row.slug for row in fleet.replicas()} == {"r1", "own"}


def test_a_pool_serves_what_all_its_servers_can_and_what_an_operator_added() -> None:
    facts = demo_seed.seed(wish({}))
    pools.change(
        slug="p1",
        changes={"endpoints": ("chat/completions", "embeddings")},
        actor=Actor.command("test"),
        why="test",
    )
    demo_seed.seed(wish(facts))
    served = {"chat/completions", "completions", "embeddings", "messages"}
    assert served <= set(fleet.pool("p1").endpoints)
    other = wish(facts)
    other["pools"][0] |= {"slug": "p2", "model": "m2"}
    other["pools"][0]["servers"][0] |= {"slug": "r2", "kind": "openai"}
    demo_seed.seed(other)
    assert set(fleet.pool("p2").endpoints) == {"chat/completions", "completions"}
