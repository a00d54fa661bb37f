"""Who sees which page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import structlog
from django.test import Client

from config.logs import logging_config
from dashboard.selectors import tenancy
from tenants.models import Member, Organization
from tenants.services import members
from tests import factories

ClientOf = Callable[[str], Client]
OPERATOR_PAGES = ("/tenants/acme/policy/", "/audit/", "/audit/latest/")
TENANT_PAGES = ("/keys/",)
SHARED_PAGES = ("/calls/", "/batches/")


@pytest.mark.parametrize("path", ["/", *SHARED_PAGES, *OPERATOR_PAGES, *TENANT_PAGES])
def test_anonymous_is_sent_to_sign_in(path: str, client: Client, db: None) -> None:
    answer = client.get(path)
    assert answer.status_code == 302
    assert answer["location"].startswith("/accounts/login/")


def test_operator_sees_the_fleet(client_of: ClientOf) -> None:
    page = client_of("olga").get("/").content.decode()
    assert "<h1>Fleet</h1>" in page
    assert 'id="tenant-acme"' in page
    assert 'id="tenant-rival"' in page


def test_member_sees_the_own_organization_only(client_of: ClientOf) -> None:
    page = client_of("bob").get("/").content.decode()
    assert "<h1>Acme</h1>" in page
    assert "rival" not in page.lower()


@pytest.mark.parametrize("path", OPERATOR_PAGES)
@pytest.mark.parametrize("name", ["alice", "charlie"])
def test_operator_pages_are_closed_to_members(name: str, path: str, client_of: ClientOf) -> None:
    assert client_of(name).get(path).status_code == 403


def test_stranger_is_told_who_can_grant_access(db: None) -> None:
    factories.cast()
    user = factories.member("acme", "dora", "viewer")
    Member.objects.filter(user=user).delete()
    client = Client()
    client.force_login(user, "allauth.account.auth_backends.AuthenticationBackend")
    answer = client.get("/")
    assert answer.status_code == 403
    assert "An owner of an organization can add you" in answer.content.decode()


def test_tenants_of_one_name_are_told_apart(client_of: ClientOf) -> None:
    Organization.objects.filter(slug="rival").update(name="Acme")
    assert {one.name for one in tenancy().policies.values()} >= {"Acme (acme)", "Acme (rival)"}


def test_a_refused_page_logs_no_traceback(
    client_of: ClientOf, caplog: pytest.LogCaptureFixture
) -> None:
    client_of("alice").get("/audit/")
    formatter = structlog.stdlib.ProcessorFormatter(**_formatter())
    lines = [formatter.format(one) for one in caplog.records if one.name == "django.request"]
    assert lines
    assert all("Traceback" not in line for line in lines)


def _formatter() -> dict[str, Any]:
    written = dict(logging_config("INFO")["formatters"]["json"])
    del written["()"]
    return written


def test_pages_are_never_stored(client_of: ClientOf) -> None:
    assert "no-store" in client_of("olga").get("/")["cache-control"]


def test_who_belongs_to_several_organizations_switches_between_them(client_of: ClientOf) -> None:
    members.add(slug="rival", username="alice", role="viewer", actor=factories.TESTER)
    alice = client_of("alice")
    assert "<h1>Acme</h1>" in alice.get("/").content.decode()
    assert 'aria-label="Organization Acme: switch"' in alice.get("/calls/").content.decode()
    assert alice.post("/organization/", {"slug": "rival"}).status_code == 302
    assert "<h1>Rival</h1>" in alice.get("/").content.decode()
    alice.post("/organization/", {"slug": "foreign"})
    assert "<h1>Rival</h1>" in alice.get("/").content.decode()


def test_who_belongs_to_one_organization_has_no_switch(client_of: ClientOf) -> None:
    assert ": switch" not in client_of("alice").get("/").content.decode()
