"""A refusal has the shape of OpenAI, whoever refuses."""

from __future__ import annotations

import pytest

from tests.workers.asking import Asker
from tests.workers.test_api import alice

__all__ = ["alice"]


@pytest.mark.parametrize("body", [b"{", b"\xff", b"[" * 5000, b'{"endpoint": ' + b"9" * 5000])
async def test_a_batch_that_is_no_json_is_told_so(alice: Asker, body: bytes) -> None:
    answer = await alice.ask("POST", "/v1/batches", [body], content_type="application/json")
    assert answer.error == (400, "invalid_request", None)
    assert answer.json["error"]["message"] == "Cannot parse request body."


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/v1/files"), ("GET", "/v1/files/none/content"), ("PATCH", "/v1/batches")],
)
async def test_every_answer_tells_the_id_of_its_request(
    alice: Asker, method: str, path: str
) -> None:
    named = await alice.ask(method, path, x_request_id="mine-1")
    assert named.headers["x-request-id"] == "mine-1"
    unnamed = [await alice.ask(method, path, x_request_id="no id\n") for _ in range(2)]
    assert len({answer.headers["x-request-id"] for answer in unnamed} | {"mine-1"}) == 3
