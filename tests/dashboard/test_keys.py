"""A tenant's keys: the secret once, off and on, rotation, and nobody else's."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.test import Client

from tenants import key_format
from tenants.models import ApiKey
from tests import factories
from tests.people import BACKEND

ClientOf = Callable[[str], Client]
FORM = {
    "label": "ci-bot",
    "scopes": ["inference"],
    "highest_class": "standard",
    "expires": "30",
}


def secret_in(page: str) -> str:
    found = re.search(r'id="secret">(fw-[^<]+)<', page)
    assert found
    return found.group(1)


def test_the_secret_is_shown_once(client_of: ClientOf) -> None:
    alice = client_of("alice")
    answer = alice.post("/keys/", FORM)
    secret = secret_in(answer.content.decode())
    key_id = key_format.parse(secret)
    row = ApiKey.objects.get(key_id=key_id)
    assert (row.label, row.scopes, row.highest_class) == ("ci-bot", ["inference"], 1)
    assert row.expires_at is not None
    assert secret not in alice.get("/keys/").content.decode()


def test_a_viewer_is_offered_no_new_key(client_of: ClientOf) -> None:
    factories.member("acme", "vera", "viewer")
    vera = Client()
    vera.force_login(factories.user("vera"), BACKEND)
    for path in ("/", "/keys/", "/calls/"):
        page = vera.get(path).content.decode()
        assert "Create key" not in page, path
        assert "Create a key" not in page, path
        assert "/keys/" in page, path
    assert "Create key" in client_of("bob").get("/keys/").content.decode()


def test_snippets_hold_the_address_and_the_secret(client_of: ClientOf) -> None:
    page = client_of("alice").post("/keys/", FORM).content.decode()
    assert f"Bearer {secret_in(page)}" in page
    assert "http://testserver/v1/chat/completions" in page


def test_a_key_is_disabled_and_enabled(client_of: ClientOf) -> None:
    bob = client_of("bob")
    key = factories.key("acme").key
    bob.post(f"/keys/{key.key_id}/disable/")
    assert not ApiKey.objects.get(pk=key.pk).enabled
    bob.post(f"/keys/{key.key_id}/enable/")
    assert ApiKey.objects.get(pk=key.pk).enabled


def test_rotation_shows_a_new_secret_and_ends_the_old_key_later(client_of: ClientOf) -> None:
    key = factories.key("acme").key
    answer = client_of("alice").post(f"/keys/{key.key_id}/rotate/")
    old = ApiKey.objects.get(pk=key.pk)
    assert old.rotated_to is not None
    assert key_format.parse(secret_in(answer.content.decode())) == old.rotated_to.key_id
    assert old.expires_at is not None


@pytest.mark.parametrize("act", ["disable", "enable", "rotate"])
def test_a_foreign_key_does_not_exist(act: str, client_of: ClientOf) -> None:
    key = factories.key("acme").key
    assert client_of("charlie").post(f"/keys/{key.key_id}/{act}/").status_code == 404
    assert ApiKey.objects.get(pk=key.pk).enabled


def test_a_viewer_only_looks(cast: factories.Cast) -> None:
    viewer = Client()
    user = factories.member("acme", "vera", "viewer")
    viewer.force_login(user, "allauth.account.auth_backends.AuthenticationBackend")
    assert viewer.get("/keys/").status_code == 200
    assert viewer.post("/keys/", FORM).status_code == 403
    assert not ApiKey.objects.exists()


def test_a_key_that_manages_is_an_owners(client_of: ClientOf, cast: factories.Cast) -> None:
    """S16: a member gets no more by the pages than by the control API."""
    member = Client()
    user = factories.member("acme", "max", "member")
    member.force_login(user, "allauth.account.auth_backends.AuthenticationBackend")
    assert "manage:" not in member.get("/keys/").content.decode()
    assert member.post("/keys/", FORM | {"scopes": ["inference", "manage"]}).status_code == 422
    assert not ApiKey.objects.exists()
    assert client_of("alice").post("/keys/", FORM | {"scopes": ["manage"]}).status_code == 201
    key = ApiKey.objects.get()
    for act in ("rotate", "disable"):
        answer = member.post(f"/keys/{key.key_id}/{act}/", follow=True).content.decode()
        assert "A member may not manage management keys." in answer
    assert ApiKey.objects.get().enabled


@pytest.mark.parametrize(
    "change", [{"label": ""}, {"scopes": []}, {"scopes": ["root"]}, {"highest_class": "vip"}]
)
def test_a_malformed_form_makes_no_key(change: dict[str, object], client_of: ClientOf) -> None:
    assert client_of("alice").post("/keys/", FORM | change).status_code == 422
    assert not ApiKey.objects.exists()


@pytest.mark.parametrize("path", ["disable", "enable", "rotate"])
def test_a_read_switches_no_key(path: str, client_of: ClientOf) -> None:
    """S16: GET never mutates."""
    key = factories.key("acme").key
    assert client_of("alice").get(f"/keys/{key.key_id}/{path}/").status_code == 405
