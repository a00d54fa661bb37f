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
