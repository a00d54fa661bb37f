"""Two tabs, two organizations: a page acts on the one that it was rendered for, or not at all."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from dashboard.tabs import FIELD, HEADER
from tenants.models import ApiKey, Member
from tenants.services import members
from tests import factories
from tests.people import BACKEND

FORM = {"label": "ci-bot", "scopes": ["inference"], "highest_class": "standard", "expires": "30"}
SWITCHED = "You have switched to Acme in another tab. Nothing was changed."


@pytest.fixture
def alice(cast: factories.Cast) -> Client:
    """Of both; a page of Rival is open, then Acme was chosen in another tab."""
    members.add(slug="rival", username="alice", role="owner", actor=factories.TESTER)
    client = Client()
    client.force_login(cast.alice, BACKEND)
    return client


def words(content: bytes) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", content.decode()))


def carried(page: str) -> set[str]:
    return set(re.findall(rf'<input type="hidden" name="{FIELD}" value="([^"]*)">', page))


@pytest.mark.parametrize("path", ["/", "/keys/", "/calls/", "/batches/"])
def test_every_page_carries_its_organization(path: str, alice: Client) -> None:
    alice.post("/organization/", {"slug": "rival"})
    page = alice.get(path).content.decode()
    assert f"""hx-headers:inherited='{{"{HEADER}": "rival"}}'""" in page
    forms = re.findall(r'<form[^>]*method="post".*?</form>', page, re.DOTALL)
    assert forms
    assert all(carried(form) == {"rival"} for form in forms)


def test_the_socket_is_asked_for_the_pages_organization(alice: Client) -> None:
    assert 'data-url="/ws/live/?organization=acme"' in alice.get("/").content.decode()


def test_no_key_is_made_in_the_other_organization(alice: Client) -> None:
    answer = alice.post("/keys/", FORM | {FIELD: "rival"})
    assert answer.status_code == 409
    assert SWITCHED in words(answer.content)
    assert "Back to Rival" in words(answer.content)
    assert not ApiKey.objects.exists()


@pytest.mark.parametrize("act", ["disable", "enable", "rotate"])
def test_no_key_is_switched_from_a_page_of_another(act: str, alice: Client) -> None:
    key = factories.key("acme").key
    path = f"/keys/{key.key_id}/{act}/"
    assert alice.post(path, {FIELD: "rival"}).status_code == 409
    row = ApiKey.objects.get()
    assert row.enabled
    assert row.rotated_to is None


def test_a_poll_of_another_gets_no_limits(alice: Client) -> None:
    answer = alice.get("/limits/", headers={"HX-Request": "true", HEADER: "rival"})
    assert answer.status_code == 409
    assert SWITCHED in words(answer.content)
    assert "<html" not in answer.content.decode()
    own = alice.get("/limits/", headers={"HX-Request": "true", HEADER: "acme"})
    assert own.status_code == 200


def test_who_has_several_must_name_one(alice: Client) -> None:
    """So that a form without a name is refused instead of written somewhere."""
    assert alice.post("/keys/", FORM).status_code == 409
    assert alice.get("/limits/", headers={"HX-Request": "true"}).status_code == 409
    assert not ApiKey.objects.exists()
    assert alice.post("/keys/", FORM | {FIELD: "acme"}).status_code == 201


def test_a_header_and_a_field_that_differ_are_refused(alice: Client) -> None:
    answer = alice.post("/keys/", FORM | {FIELD: "acme"}, headers={HEADER: "rival"})
    assert answer.status_code == 409
    assert not ApiKey.objects.exists()


def test_the_way_back_is_open(alice: Client) -> None:
    answer = alice.post("/organization/", {"slug": "rival", FIELD: "rival"})
    assert answer.status_code == 302
    assert alice.post("/keys/", FORM | {FIELD: "rival"}).status_code == 201
    assert ApiKey.objects.get().organization.slug == "rival"


def test_who_was_taken_out_of_an_organization_learns_nothing_of_it(alice: Client) -> None:
    Member.objects.filter(organization__slug="rival").delete()
    answer = alice.post("/keys/", FORM | {FIELD: "rival"})
    assert answer.status_code == 409
    assert "rival" not in answer.content.decode().lower()
    assert not ApiKey.objects.exists()


def test_a_part_of_a_page_of_another_account_names_no_organization(cast: factories.Cast) -> None:
    """Charlie signed in where a page of alice was open."""
    charlie = Client()
    charlie.force_login(cast.charlie, BACKEND)
    answer = charlie.get("/limits/", headers={"HX-Request": "true", HEADER: "acme"})
    told = answer.content.decode().lower()
    assert answer.status_code == 409
    assert "this page is of another organization" in told
    assert ("rival" in told, "acme" in told) == (False, False)
