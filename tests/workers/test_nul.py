"""No id has U+0000 in it, also where Django's handler is not asked."""

from __future__ import annotations

import pytest

from tests.workers.asking import Asker
from tests.workers.test_api import alice

__all__ = ["alice"]


@pytest.mark.parametrize(
    "asked",
    [
        "GET /v1/files/a\0b",
        "DELETE /v1/files/a\0b",
        "GET /v1/files/a\0b/content",
        "POST /v1/batches/a\0b/cancel",
    ],
)
async def test_nothing_is_named_so(alice: Asker, asked: str) -> None:
    method, path = asked.split(" ")
    answer = await alice.ask(method, path)
    assert answer.error == (404, "invalid_request", "id")
    assert "contains a NUL character" in answer.json["error"]["message"]
