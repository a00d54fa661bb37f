"""Who may do what over the control API: every operation, every role, every way to sign in."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import transaction
from django.test import Client
from django.utils import timezone

from gateway.core.limits.limit import Limit
from tenants.models import AuditEntry, ConfigVersion
from tenants.permissions import ALLOWED, Action, As
from tenants.services import credit, keys, ledger, limits, organizations
from tests import factories
from tests.factories import TESTER
from tests.tenants.control_urls import api
from tests.tenants.endpoints import ENDPOINTS, Endpoint

pytestmark = [pytest.mark.django_db, pytest.mark.urls("tests.tenants.control_urls")]
WITH_BODY = [e for e in ENDPOINTS if e.has_body]
CHANGING = [e for e in ENDPOINTS if not e.line.startswith("GET")]


@pytest.fixture
def world(cast: factories.Cast) -> SimpleNamespace:
    """alice's tenant with everything that the operations need."""
    factories.member("acme", "victor", "viewer")
    manage = factories.key("acme", scopes=("manage",), label="automation")
    web = factories.key("acme", label="web")
    for key_id in (None, web.key.key_id):
        limits.set_limit(slug="acme", limit=Limit("tpm", 50), key_id=key_id, actor=TESTER)
    credit.grant(slug="acme", amount_microcredits=100, actor=TESTER, why="x")
    ledger.insert_calls([factories.call_record(charge_microcredits=50)])
    entry = organizations.set_weight(slug="acme", weight=2, actor=TESTER, why="x")
    names = {
        "slug": "acme",
        "key_id": web.key.key_id,
        "username": "bob",
        "plan": "free",
        "entry_id": str(entry.pk),
    }
    return SimpleNamespace(names=names, manage=manage, web=web)


def call(who: str, endpoint: Endpoint, world: SimpleNamespace, **options: Any) -> Any:
    """As a person of the cast by session, or as ``key`` by the management key."""
    client = options.pop("client", None) or Client()
    headers = {"authorization": f"Bearer {world.manage.secret}"} if who == "key" else {}
    if who and who != "key":
        client.force_login(
            factories.user(who), "allauth.account.auth_backends.AuthenticationBackend"
        )
    method, path = endpoint.filled(**world.names).split(" ")
    body = factories.json_of(endpoint.body | options.pop("extra", {})) if endpoint.has_body else ""
    content_type = options.pop("content_type", "application/json")
    return client.generic(method, f"/api{path}", body, content_type, headers=headers)


def call_and_undo(who: str, endpoint: Endpoint, world: SimpleNamespace) -> tuple[int, int]:
    """The status and how many audit rows it left; the database is as before."""
    with transaction.atomic():
        before = AuditEntry.objects.count()
        status = call(who, endpoint, world).status_code
        written = AuditEntry.objects.count() - before
        transaction.set_rollback(True)
    return status, written


def test_every_operation_has_a_row_in_the_table() -> None:
    schema = api.get_openapi_schema()["paths"]
    documented = {
        f"{method.upper()} {path.removeprefix('/api')}"
        for path in schema
        for method in schema[path]
    }
    assert documented == {endpoint.line.partition("?")[0] for endpoint in ENDPOINTS}


def test_every_operation_declares_its_refusals() -> None:
    for path in api.get_openapi_schema()["paths"].values():
        for operation in path.values():
            assert {401, 403, 404, 409, 415, 422} <= set(operation["responses"])


@pytest.mark.parametrize("who", ["charlie", "victor", "bob", "alice", "key"])
def test_what_the_role_may_not_do_is_refused(world: SimpleNamespace, who: str) -> None:
    """S09, S11: strangers get 404 as if there were nothing, insiders without the right 403."""
    refused = [endpoint for endpoint in ENDPOINTS if who not in endpoint.allowed]
    answers = {e.line: call(who, e, world).status_code for e in refused}
    assert answers == {e.line: 404 if who == "charlie" and e.of_tenant else 403 for e in refused}


@pytest.mark.parametrize("who", ["charlie", "victor", "bob", "alice", "key", "olga"])
def test_what_the_role_may_do_succeeds(world: SimpleNamespace, who: str) -> None:
    """S11."""
    allowed = [endpoint for endpoint in ENDPOINTS if who in endpoint.allowed]
    answers = {e.line: call_and_undo(who, e, world)[0] for e in allowed}
    assert answers == {e.line: e.status for e in allowed}


def test_nobody_gets_nothing(world: SimpleNamespace) -> None:
    assert {call("", endpoint, world).status_code for endpoint in ENDPOINTS} == {401}


@pytest.mark.parametrize("field", ["is_operator", "tenant_id", "skeleton"])
def test_unknown_field_is_refused(world: SimpleNamespace, field: str) -> None:
    """S10."""
    for endpoint in WITH_BODY:
        answer = call(min(endpoint.allowed), endpoint, world, extra={field: 1})
        assert answer.status_code == 422, endpoint.line


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""]
)
def test_only_json_is_read(world: SimpleNamespace, content_type: str) -> None:
    """S16."""
    for endpoint in WITH_BODY:
        answer = call(min(endpoint.allowed), endpoint, world, content_type=content_type)
        assert answer.status_code == 415, endpoint.line


def test_session_needs_a_csrf_token_to_change_something(world: SimpleNamespace) -> None:
    """S16."""
    before = ConfigVersion.objects.get().version
    strict = Client(enforce_csrf_checks=True)
    for endpoint in CHANGING:
        assert call("olga", endpoint, world, client=strict).status_code == 403, endpoint.line
    assert ConfigVersion.objects.get().version == before


def test_change_writes_exactly_one_audit_row(world: SimpleNamespace) -> None:
    """S39: and a refusal none."""
    rows = {e.line: call_and_undo("olga", e, world)[1] for e in CHANGING}
    assert rows == {e.line: 1 if e.status < 300 else 0 for e in CHANGING}


def test_reading_changes_nothing(world: SimpleNamespace) -> None:
    """S16."""
    before = ConfigVersion.objects.get().version, AuditEntry.objects.count()
    for endpoint in ENDPOINTS:
        if endpoint not in CHANGING:
            assert call("olga", endpoint, world).status_code == 200, endpoint.line
    assert (ConfigVersion.objects.get().version, AuditEntry.objects.count()) == before


def ask_with(secret: str, **options: Any) -> Any:
    headers = {"authorization": f"Bearer {secret}"}
    return options.pop("client", Client()).get("/api/tenants/acme", headers=headers, **options)


def test_key_decides_alone_where_one_is_sent(
    world: SimpleNamespace, client_of: Callable[[str], Client]
) -> None:
    """S16: the cookies beside it are ignored, whichever way they would decide."""
    assert ask_with(world.manage.secret, client=client_of("charlie")).status_code == 200
    assert ask_with("fw-wrong", client=client_of("alice")).status_code == 401


def test_wrong_keys_of_one_address_are_bounded_and_valid_ones_are_not(
    world: SimpleNamespace,
) -> None:
    """S07: more than 20 in a minute are answered 429; a tenant on the same address works on."""
    here = {"REMOTE_ADDR": "198.51.100.7"}
    answers = [ask_with(f"fw-wrong-{n}", **here) for n in range(21)]
    assert [answer.status_code for answer in answers] == [401] * 20 + [429]
    assert answers[-1]["x-fairway-reason"] == "too_many_failures"
    assert 1 <= int(answers[-1]["retry-after"]) <= 60
    assert ask_with(world.manage.secret, **here).status_code == 200
    assert ask_with("fw-wrong", REMOTE_ADDR="198.51.100.8").status_code == 401


def test_key_in_the_other_header_works_too(world: SimpleNamespace) -> None:
    headers = {"x-api-key": world.manage.secret}
    assert Client().get("/api/tenants/acme", headers=headers).status_code == 200


def test_another_scheme_is_not_a_session(client_of: Callable[[str], Client]) -> None:
    answer = client_of("alice").get("/api/me", headers={"authorization": "Basic YTpi"})
    assert answer.status_code == 401


@pytest.mark.parametrize("scopes", [("inference",), ("batch",), ("usage",)])
def test_key_needs_the_scope_manage(world: SimpleNamespace, scopes: tuple[str, ...]) -> None:
    """S04."""
    assert ask_with(factories.key("acme", scopes=scopes).secret).status_code == 403


def test_key_from_another_network_is_refused(world: SimpleNamespace) -> None:
    """S04."""
    secret = factories.key("acme", scopes=("manage",), allowed_networks=("10.0.0.0/8",)).secret
    assert ask_with(secret, REMOTE_ADDR="10.9.9.9").status_code == 200
    assert ask_with(secret, REMOTE_ADDR="192.0.2.1").status_code == 403


def test_disabled_expired_and_suspended_keys_open_nothing(world: SimpleNamespace) -> None:
    later = timezone.now() + timedelta(seconds=1)
    expiring = factories.key("acme", scopes=("manage",), expires_at=later).key
    expiring.expires_at = timezone.now()
    expiring.save()
    keys.disable(slug="acme", key_id=world.manage.key.key_id, actor=TESTER)
    assert ask_with(world.manage.secret).status_code == 401
    keys.enable(slug="acme", key_id=world.manage.key.key_id, actor=TESTER)
    organizations.suspend(slug="acme", actor=TESTER, why="x")
    assert ask_with(world.manage.secret).status_code == 403


def test_disabled_operator_and_account_lose_their_rights(
    world: SimpleNamespace, cast: factories.Cast
) -> None:
    factories.operator("oscar")
    factories.disable_operator("olga")
    assert call("olga", Endpoint("GET /audit", frozenset()), world).status_code == 403
    cast.alice.is_active = False
    cast.alice.save()
    assert call("alice", Endpoint("GET /me", frozenset()), world).status_code == 401


def test_member_and_key_cannot_make_or_touch_management_keys(world: SimpleNamespace) -> None:
    make = Endpoint("POST /tenants/{slug}/keys", frozenset(), {"scopes": ["manage"]})
    world.names["key_id"] = world.manage.key.key_id
    touch = Endpoint("POST /tenants/{slug}/keys/{key_id}/rotate", frozenset())
    for who in ("bob", "key"):
        assert [call(who, make, world).status_code, call(who, touch, world).status_code] == [
            403,
            403,
        ]
    assert call("alice", make, world).status_code == 201


def test_matrix_knows_every_action_and_leaves_operating_to_operators() -> None:
    assert set(ALLOWED) == set(Action)
    assert ALLOWED[Action.OPERATE] == {As.OPERATOR}
    assert all(As.OPERATOR in roles for roles in ALLOWED.values())
