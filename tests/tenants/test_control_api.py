"""What the control API does and how it explains itself."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from tenants import snapshot
from tenants.models import Organization
from tests import factories
from tests.tenants.conftest import Send

pytestmark = [pytest.mark.django_db, pytest.mark.urls("tests.tenants.control_urls")]
ClientOf = Callable[[str], Client]
WEIGHT = "PUT /tenants/acme/weight"


def test_weight_is_changed_and_undone_by_its_entry(send: Send) -> None:
    entry = send("olga", WEIGHT, weight=3, why="contract").json()
    assert (entry["before"], entry["after"]) == ({"weight": 1.0}, {"weight": 3.0})
    assert entry["actor"] == "user:olga"
    undone = send("olga", f"POST /audit/{entry['id']}/undo").json()
    assert (undone["undoes"], Organization.objects.get(slug="acme").weight) == (entry["id"], 1.0)


def test_undo_names_the_newer_change(send: Send) -> None:
    first = send("olga", WEIGHT, weight=3, why="x").json()["id"]
    second = send("olga", WEIGHT, weight=4, why="x").json()["id"]
    answer = send("olga", f"POST /audit/{first}/undo")
    assert answer.status_code == 409
    assert f"Entry {second} by user:olga" in answer.json()["detail"]


def test_old_version_is_refused_with_what_to_do(send: Send) -> None:
    send("olga", WEIGHT, weight=3, why="x", expected_version=1)
    answer = send("olga", WEIGHT, weight=4, why="x", expected_version=1)
    assert answer.status_code == 409
    assert answer.json()["code"] == "changed_meanwhile"
    assert answer.json()["next_step"].startswith("Read it again")


@pytest.mark.parametrize("weight", ["0", "-1", "1e12", "NaN", "Infinity", '"2"', "true", "null"])
def test_absurd_weight_is_refused(client_of: ClientOf, weight: str) -> None:
    """Row 85."""
    body = f'{{"weight": {weight}, "why": "x"}}'
    answer = client_of("olga").put("/api/tenants/acme/weight", body, "application/json")
    assert answer.status_code == 422
    assert Organization.objects.get(slug="acme").weight == 1


@pytest.mark.parametrize(
    "body",
    [b"{", b"[]", b"null", b"\xff\xfe", b'{"weight": 1', b'{"why": "\\ud800", "weight": 2}',
     b'{"why": "a\\u0000b", "weight": 2}', b'{"why": "\\u202e", "weight": 2}',
     b'{"why": "", "weight": 2}', b"[" * 5000, b'{"weight": ' + b"9" * 5000 + b', "why": "x"}'],
)  # fmt: skip
def test_unreadable_body_is_the_callers_fault(client_of: ClientOf, body: bytes) -> None:
    """S35, S32."""
    answer = client_of("olga").put("/api/tenants/acme/weight", body, "application/json")
    assert answer.status_code in (400, 422)


def test_secret_is_in_the_answer_of_creation_alone(send: Send) -> None:
    created = send("alice", "POST /tenants/acme/keys", label="web", models=["m"]).json()
    assert created["api_key"].startswith(f"fw-{created['key_id']}-")
    shown = send("alice", f"GET /tenants/acme/keys/{created['key_id']}").json()
    assert "api_key" not in shown
    assert created["api_key"] not in str(send("alice", "GET /tenants/acme/keys").json())
    assert created["api_key"] not in str(send("alice", "GET /tenants/acme/audit").json())
    assert shown["masked"] == f"fw-{created['key_id']}-…{created['api_key'][-4:]}"


def test_change_of_a_key_leaves_the_rest_as_it_was(send: Send) -> None:
    ends = timezone.now() + timedelta(days=1)
    key_id = factories.key("acme", models=("m",), expires_at=ends).key.key_id
    send("alice", f"PATCH /tenants/acme/keys/{key_id}", label="renamed")
    assert send("alice", f"GET /tenants/acme/keys/{key_id}").json()["models"] == ["m"]
    send("alice", f"PATCH /tenants/acme/keys/{key_id}", expires_at=None)
    shown = send("alice", f"GET /tenants/acme/keys/{key_id}").json()
    assert (shown["expires_at"], shown["label"]) == (None, "renamed")


def test_keys_of_another_tenant_do_not_exist(send: Send) -> None:
    """S09: also where the caller's own tenant stands in the path."""
    key_id = factories.key("acme").key.key_id
    for path in (f"/tenants/acme/keys/{key_id}", f"/tenants/rival/keys/{key_id}"):
        for verb in ("disable", "enable", "rotate"):
            assert send("charlie", f"POST {path}/{verb}").status_code == 404
        assert send("charlie", f"GET {path}").status_code == 404


def test_tenants_are_listed_to_those_who_belong(send: Send) -> None:
    names = {who: [t["slug"] for t in send(who, "GET /tenants").json()] for who in ("bob", "olga")}
    assert names == {"bob": ["acme"], "olga": ["acme", "rival"]}


def test_limit_of_a_tenant_is_set_shown_and_cleared(send: Send) -> None:
    send("olga", "PUT /tenants/acme/limits", meter="rpm", amount=7, klass="online", why="trial")
    shown = {one["meter"]: one for one in send("bob", "GET /tenants/acme/limits").json()}
    assert (shown["rpm"]["amount"], shown["rpm"]["source"]) == (7, "tenant")
    send("olga", "DELETE /tenants/acme/limits?meter=rpm&klass=online")
    shown = {one["meter"]: one for one in send("bob", "GET /tenants/acme/limits").json()}
    assert (shown["rpm"]["amount"], shown["rpm"]["source"]) == (60, "plan")


def test_usage_and_calls_are_the_tenants_own(send: Send) -> None:
    factories.ended_call(prompt_tokens=30, completion_tokens=3)
    factories.ended_call(tenant="rival")
    [usage] = send("bob", "GET /tenants/acme/usage?by=model").json()
    assert (usage["calls"], usage["prompt_tokens"]) == (1, 30)
    assert len(send("bob", "GET /tenants/acme/calls").json()) == 1


@pytest.mark.parametrize("query", ["by=message", "since=2020-01-01T00:00:00Z", "since=x"])
def test_unusable_query_is_refused(send: Send, query: str) -> None:
    """S41."""
    assert send("bob", f"GET /tenants/acme/usage?{query}").status_code == 422


def test_page_holds_at_most_100(send: Send) -> None:
    """S41."""
    assert send("olga", "GET /audit?limit=101").status_code == 422
    assert send("olga", "GET /audit?limit=1").json()[0]["id"] > 0


def test_new_member_signs_in_with_the_password_shown_once(send: Send) -> None:
    added = send("alice", "POST /tenants/acme/members", username="dora", role="viewer").json()
    body = {"login": "dora", "password": added["password"]}
    client = Client()
    assert client.login(username="dora", password=body["password"])
    assert "password" not in str(send("alice", "GET /tenants/acme/members").json())


def test_only_operators_add_an_account_that_exists(send: Send) -> None:
    """S41: nobody's page becomes that of an organization whose owner put them there."""
    line, body = "POST /tenants/acme/members", {"username": "charlie", "role": "member"}
    assert send("alice", line, **body).status_code == 409
    added = send("olga", line, **body)
    assert (added.status_code, added.json()["password"]) == (201, None)


def test_a_refused_caller_is_told_what_to_send() -> None:
    client = Client()
    for headers, words in (({}, "Sign in"), ({"x-api-key": "fw-no"}, "The API key is")):
        answer = client.get("/api/me", headers=headers)
        assert (answer.status_code, words in answer.json()["detail"]) == (401, True)


def test_last_owner_stays(send: Send) -> None:
    for line, body in (("DELETE", {}), ("PATCH", {"role": "viewer"})):
        answer = send("alice", f"{line} /tenants/acme/members/alice", **body)
        assert (answer.status_code, answer.json()["detail"]) == (409, "acme would have no owner.")
    assert send("alice", "GET /tenants/acme/members").json()[0]["role"] == "owner"


def test_change_is_in_the_next_snapshot(send: Send) -> None:
    version = snapshot.current_version()
    send("olga", "POST /tenants/acme/suspend", why="unpaid")
    loaded = snapshot.load()
    assert (loaded.version, loaded.tenants["acme"].suspended) == (version + 1, True)
