"""An input file is judged line by line; one mistake and nothing runs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.services import pools
from tenants.services import keys, organizations
from tests.factories import TESTER
from tests.workers.batches import ENDPOINT, Desk, jsonl, request
from workers import validation
from workers.models import Batch, Status
from workers.services import checking

LINE = request("a")


def failed(desk: Desk, content: bytes) -> list[dict[str, Any]]:
    batch = desk.checked(content)
    assert batch.status == Status.FAILED
    assert not batch.lines.exists()
    found: list[dict[str, Any]] = batch.errors
    return found


@pytest.mark.parametrize(
    ("line", "code", "param"),
    [
        ({**LINE, "custom_id": ""}, "invalid_request", "custom_id"),
        ({**LINE, "custom_id": "x" * 513}, "invalid_request", "custom_id"),
        ({**LINE, "custom_id": "a\0b"}, "invalid_request", "custom_id"),
        ({**LINE, "custom_id": "first"}, "invalid_request", "custom_id"),
        ({**LINE, "method": "GET"}, "invalid_request", "method"),
        ({**LINE, "url": "/v1/completions"}, "invalid_request", "url"),
        (request("a", model="nope"), "model_not_found", "body.model"),
        (request("a", max_tokens=0), "invalid_request", "body.max_tokens"),
        (request("a", messages=[]), "invalid_request", "body.messages"),
        (request("a", stream=True), "invalid_request", "body.stream"),
        (request("a", base_url="http://evil"), "invalid_request", "body.base_url"),
        ({"custom_id": "a", "method": "POST", "url": ENDPOINT}, "invalid_request", None),
        ({**LINE, "body": "text"}, "invalid_request", "body"),
        ([1, 2], "invalid_request", None),
    ],
)
def test_a_mistake_is_listed_with_its_line(
    desk: Desk, line: Any, code: str, param: str | None
) -> None:
    content = jsonl([request("first"), line, request("last")])
    assert [(e["line"], e["code"], e["param"]) for e in failed(desk, content)] == [(2, code, param)]


ELSEWHERE: dict[str, dict[str, Any]] = {
    "/v1/completions": {"prompt": "The sea", "max_tokens": 4},
    "/v1/embeddings": {"input": ["The sea"], "dimensions": 8},
    "/v1/responses": {"input": "The sea", "store": False},
}


@pytest.mark.parametrize("endpoint", ELSEWHERE)
def test_each_endpoint_judges_its_own_fields(desk: Desk, endpoint: str) -> None:
    every = tuple(path.removeprefix("/v1/") for path in validation.ENDPOINTS)
    pools.change(slug="sim", changes={"endpoints": every}, actor=TESTER, why="test")
    body = {"model": "sim", **ELSEWHERE[endpoint]}
    wrong: list[dict[str, Any]] = [{}, {"metadata": []}, {"model": 5}]
    lines = [{**request(f"r{n}"), "url": endpoint, "body": body | w} for n, w in enumerate(wrong)]
    good = desk.checked(jsonl(lines[:1]), endpoint)
    assert (good.status, good.total, good.model) == (Status.IN_PROGRESS, 1, "sim")
    bad = desk.checked(jsonl(lines), endpoint)
    assert [error["line"] for error in bad.errors] == [2, 3]


def test_a_pool_without_the_endpoint_is_a_mistake(desk: Desk) -> None:
    line = {**request("a"), "url": "/v1/embeddings", "body": {"model": "sim", "input": "x"}}
    (error,) = desk.checked(jsonl([line]), "/v1/embeddings").errors
    assert error["code"] == "endpoint_not_served"


def test_every_line_with_a_mistake_is_listed(desk: Desk) -> None:
    content = b"{\n" + jsonl([request("a")]) + b"not json\n" + jsonl([request("b"), request("a")])
    assert [error["line"] for error in failed(desk, content)] == [1, 3, 5]


def test_an_error_never_repeats_what_the_line_says(desk: Desk) -> None:
    content = jsonl([request("a", max_tokens="canary-7")]) + b'{"custom_id": "canary-8"\n'
    assert "canary" not in json.dumps(failed(desk, content))


def test_mistakes_are_listed_up_to_a_bound(desk: Desk) -> None:
    assert len(failed(desk, b"x\n" * 500)) == validation.ERRORS


@pytest.mark.parametrize("content", [b"\n\n \n", b"\r\n"])
def test_a_file_without_a_request_fails(desk: Desk, content: bytes) -> None:
    assert failed(desk, content)[0]["code"] == "empty_file"


def test_a_line_longer_than_a_request_is_skipped_without_being_held(desk: Desk) -> None:
    long = request("b", messages=[{"role": "user", "content": "x" * 3_000_000}])
    errors = failed(desk, jsonl([request("a"), long, request("c", max_tokens=0)]))
    assert [(e["line"], e["code"]) for e in errors] == [
        (2, "body_too_large"),
        (3, "invalid_request"),
    ]


def test_more_lines_than_a_batch_may_have(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation, "MOST_LINES", 3)
    errors = failed(desk, jsonl([request(f"r{n}") for n in range(5)]))
    assert [(e["line"], e["code"]) for e in errors] == [(4, "too_many_requests")]


def test_rows_say_where_each_line_is_whatever_its_end(desk: Desk) -> None:
    one, two = json.dumps(request("a")).encode(), json.dumps(request("b")).encode()
    content = one + b"\r\n\n" + two
    batch = desk.checked(content)
    assert (batch.status, batch.total, batch.model) == (Status.IN_PROGRESS, 2, "sim")
    found = [content[row.offset : row.offset + row.length] for row in batch.lines.all()]
    assert found == [one, two]
    assert [row.line_no for row in batch.lines.all()] == [1, 3]


def test_checking_twice_is_as_good_as_once(desk: Desk) -> None:
    batch = desk.running(5)
    Batch.objects.update(status=Status.VALIDATING)
    checking.check(batch=batch, storage=desk.storage, now=desk.now)
    assert (batch.lines.count(), Batch.objects.get().total) == (5, 5)


def test_a_key_that_was_disabled_meanwhile_runs_nothing(desk: Desk) -> None:
    batch = desk.batch(jsonl([request("a")]))
    keys.disable(slug="acme", key_id=desk.key_id, actor=TESTER)
    assert _checked(desk, batch).errors[0]["code"] == "invalid_api_key"


def test_a_suspended_tenant_runs_nothing(desk: Desk) -> None:
    batch = desk.batch(jsonl([request("a")]))
    organizations.suspend(slug="acme", actor=TESTER, why="test")
    assert _checked(desk, batch).errors[0]["code"] == "suspended"


def test_a_file_that_is_gone_fails_the_batch(desk: Desk) -> None:
    batch = desk.batch(jsonl([request("a")]))
    desk.storage.remove(batch.input_file_id)
    assert _checked(desk, batch).errors[0]["code"] == "file_not_found"


def _checked(desk: Desk, batch: Batch) -> Batch:
    checking.check(batch=batch, storage=desk.storage, now=desk.now)
    batch.refresh_from_db()
    return batch
