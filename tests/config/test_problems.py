"""Under ``/api`` every refusal has one shape, whoever refuses."""

from __future__ import annotations

import pytest
from django.test import Client

from tenants import principals
from tests import factories
from tests.people import cast

__all__ = ["cast"]

SHAPE = {"detail", "code", "next_step", "field"}
BACKEND = "allauth.account.auth_backends.AuthenticationBackend"


def signed_in(name: str) -> Client:
    client = Client(raise_request_exception=False)
    client.force_login(factories.user(name), BACKEND)
    return client


@pytest.mark.parametrize(
    ("who", "asked", "status", "code"),
    [
        ("olga", "GET /api/v1/nothing/here", 404, "not_found"),
        ("olga", "GET /api/v1", 404, "not_found"),
        ("olga", "GET /api/v2/tenants", 404, "not_found"),
        ("", "GET /api/v1/nothing", 404, "not_found"),
        ("olga", "DELETE /api/v1/tenants", 405, "method_not_allowed"),
        ("", "PATCH /api/v1/me", 405, "method_not_allowed"),
        ("", "GET /api/v1/tenants", 401, "invalid_api_key"),
        ("charlie", "GET /api/v1/pools", 403, "not_permitted"),
        ("charlie", "GET /api/v1/tenants/acme", 404, "not_found"),
        ("olga", "POST /api/v1/tenants", 422, "invalid_value"),
        ("olga", "GET /api/v1/audit?before_id=x", 422, "invalid_value"),
    ],
)
def test_every_refusal_has_the_same_four_names(
    who: str, asked: str, status: int, code: str, cast: factories.Cast
) -> None:
    client = signed_in(who) if who else Client()
    method, path = asked.split()
    answer = client.generic(method, path, "{}", "application/json")
    assert answer.status_code == status
    assert answer.headers["Content-Type"].startswith("application/json")
    told = answer.json()
    assert set(told) == SHAPE
    assert told["code"] == code
    assert isinstance(told["detail"], str)
    assert told["detail"]


def test_a_body_that_is_no_json_is_refused_in_that_shape(cast: factories.Cast) -> None:
    answer = signed_in("olga").generic("POST", "/api/v1/tenants", "{", "application/json")
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")


def test_a_wrong_field_is_named_without_its_value(cast: factories.Cast) -> None:
    body = '{"name": "Acme Two", "weight": "secret"}'
    told = signed_in("olga").post("/api/v1/tenants", body, "application/json").json()
    assert told["field"] == "weight"
    assert "secret" not in told["detail"]


def test_half_of_a_character_is_refused_and_not_repeated(cast: factories.Cast) -> None:
    answer = signed_in("olga").post("/api/v1/tenants", r'{"name": "\ud800"}', "application/json")
    assert (answer.status_code, answer.json()["field"]) == (422, "name")


def test_a_wrong_method_still_names_those_that_work(cast: factories.Cast) -> None:
    assert "GET" in signed_in("olga").delete("/api/v1/tenants").headers["Allow"]


def test_a_fault_is_told_in_that_shape_and_not_in_detail(
    cast: factories.Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fault(*arguments: object, **named: object) -> None:
        raise ZeroDivisionError("the reason")

    monkeypatch.setattr(principals, "of_account", fault)
    answer = signed_in("olga").get("/api/v1/tenants")
    assert (answer.status_code, answer.json()["code"]) == (500, "internal")
    assert "the reason" not in answer.content.decode()


def test_a_page_keeps_its_own_words(cast: factories.Cast) -> None:
    answer = signed_in("olga").get("/nothing/here/")
    assert answer.headers["Content-Type"].startswith("text/html")
