"""U+0000 is the caller's mistake, wherever it is: PostgreSQL would fail on it, SQLite take it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.sessions.backends.db import SessionStore
from django.test import Client

from config.composition import sockets
from tests import factories
from tests.people import cast, client_of

__all__ = ["cast", "client_of"]

ClientOf = Callable[[str], Client]
WORDS = "contains a NUL character (U+0000)."
TENANT = "/api/v1/tenants/acme"


@pytest.fixture
def openai(cast: factories.Cast) -> Client:
    """A client of files and batches."""
    secret = factories.key("acme", scopes=("batch",)).secret
    return Client(headers={"authorization": f"Bearer {secret}"})


def wish(**changes: Any) -> str:
    terms = {"input_file_id": "x", "endpoint": "/v1/chat/completions", "completion_window": "24h"}
    return json.dumps(terms | changes)


@pytest.mark.parametrize(
    ("path", "status", "param"),
    [
        ("/v1/batches/a%00b", 404, "id"),
        ("/v1/files/a%00b", 404, "id"),
        ("/v1/files/a%00b/content", 404, "id"),
        ("/v1/batches?after=a%00", 400, "after"),
        ("/v1/files?limit=2&after=a%00", 400, "after"),
        ("/v1/files?purpose=a%00", 400, "purpose"),
        ("/v1/files?purpose=%00&purpose=batch", 400, "purpose"),
        ("/v1/files?a%00=1", 400, None),
    ],
)
def test_files_and_batches_name_the_parameter(
    openai: Client, path: str, status: int, param: str | None
) -> None:
    answer = openai.get(path)
    error = answer.json()["error"]
    assert (answer.status_code, error["type"]) == (status, "invalid_request_error")
    assert error["param"] == param
    assert WORDS in error["message"]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (wish(metadata={"a": "b\0"}), "metadata"),
        (wish(metadata={"a\0": "b"}), "metadata"),
        (wish(input_file_id="a\0b"), "input_file_id"),
        (wish(metadata={"a": "\\\0"}), "metadata"),
        (wish(**{"a\0": 1}), None),
        (wish(metadata={"a": "b\0"}).encode("utf-16"), "metadata"),
        ('["\\u0000"]', None),
    ],
)
def test_a_batch_with_it_is_refused(openai: Client, body: str | bytes, param: str | None) -> None:
    answer = openai.post("/v1/batches", body, "application/json")
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, param)
    assert WORDS in error["message"]


def test_its_escape_spelled_out_is_text_like_any_other(openai: Client) -> None:
    body = wish(metadata={"a": r"\u0000 \\u0000"})
    error = openai.post("/v1/batches", body, "application/json").json()["error"]
    assert error["message"] == "No such File object: x"


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/calls/a%00b",
        f"{TENANT}/keys/a%00",
        "/api/v1/tenants/a%00",
        "/api/v1/pools/a%00",
        "/api/v1/replicas/a%00",
    ],
)
def test_nothing_of_the_control_api_is_named_so(client_of: ClientOf, path: str) -> None:
    answer = client_of("olga").get(path)
    told = answer.json()
    assert (answer.status_code, told["code"], told["field"]) == (404, "not_found", None)
    assert WORDS in told["detail"]


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        (f"GET {TENANT}/calls?key_id=a%00", "key_id"),
        (f"GET {TENANT}/calls?before=a%00", "before"),
        ("GET /api/v1/replicas?pool=a%00", "pool"),
        ("DELETE /api/v1/models?name=a%00", "name"),
        (f"DELETE {TENANT}/limits?meter=a%00&pool=b%00", "meter"),
        (f"DELETE {TENANT}/limits?meter=rpm&pool=b%00", "pool"),
    ],
)
def test_the_control_api_names_the_parameter(client_of: ClientOf, asked: str, field: str) -> None:
    method, path = asked.split()
    answer = client_of("olga").generic(method, path)
    told = answer.json()
    assert (answer.status_code, told["code"], told["field"]) == (400, "invalid_request", field)
    assert (told["next_step"], WORDS in told["detail"]) == ("Remove it.", True)


def test_the_control_api_names_the_field_of_a_body(client_of: ClientOf) -> None:
    body = json.dumps({"meter": "rpm", "amount": 5, "pool": "a\0", "why": "x"})
    answer = client_of("olga").put(f"{TENANT}/limits", body, "application/json")
    assert (answer.status_code, answer.json()["field"]) == (400, "pool")


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/calls/a%00b/", 404),
        ("/static/a%00b", 404),
        ("/calls/?before=a%00", 400),
        ("/calls/?tenant=a%00", 400),
        ("/audit/?tenant=a%00", 400),
        ("/accounts/login/?next=%00", 400),
    ],
)
def test_a_page_says_so_as_a_page(client_of: ClientOf, path: str, status: int) -> None:
    answer = client_of("olga").get(path)
    assert answer.status_code == status
    assert answer.headers["Content-Type"].startswith("text/html")
    for header in ("Content-Security-Policy", "X-Frame-Options", "Permissions-Policy"):
        assert header in answer.headers


def test_a_query_in_a_charset_of_its_own_is_judged_as_it_will_be_read(client_of: ClientOf) -> None:
    kind = {"Content-Type": "text/plain; charset=utf-7"}
    assert client_of("olga").get("/calls/?tenant=a%2BAAA-", headers=kind).status_code == 400


def test_a_form_with_it_changes_nothing(client_of: ClientOf) -> None:
    client = client_of("alice")
    for path, form in (
        ("/keys/", {"label": "a\0b", "scopes": "inference"}),
        ("/organization/", {"slug": "a\0"}),
        ("/accounts/login/", {"login": "a\0", "password": "b\0"}),
    ):
        assert client.post(path, form).status_code < 500


def test_a_session_of_that_name_is_no_session(cast: factories.Cast) -> None:
    answer = Client(headers={"cookie": r'sessionid="aaaaaaaa\000"'}).get("/calls/")
    assert answer.status_code == 302
    assert answer.headers["Location"].startswith("/accounts/login/")


@pytest.mark.parametrize(
    ("cookie", "keys"),
    [
        (b"sessionid=plain-session", ["plain-session"]),
        (rb'sessionid="aaaaaaaa\000"', []),
        (b"", []),
    ],
)
async def test_a_live_socket_looks_up_no_session_of_that_name(
    monkeypatch: pytest.MonkeyPatch, cookie: bytes, keys: list[str]
) -> None:
    looked_up: list[str | None] = []

    def load(store: SessionStore) -> dict[str, Any]:
        looked_up.append(store.session_key)
        return {}

    monkeypatch.setattr(SessionStore, "load", load)
    sent: list[Any] = []
    coming: list[Any] = [
        {"type": "websocket.disconnect", "code": 1000},
        {"type": "websocket.connect"},
    ]

    async def receive() -> dict[str, Any]:
        message: dict[str, Any] = coming.pop() if coming else await asyncio.Future()
        return message

    async def send(message: Any) -> None:
        sent.append(message["type"])

    headers = [(b"cookie", cookie), (b"origin", b"http://testserver"), (b"host", b"testserver")]
    await sockets()({"type": "websocket", "path": "/nothing", "headers": headers}, receive, send)
    assert sent == ["websocket.close"]
    assert looked_up == keys
