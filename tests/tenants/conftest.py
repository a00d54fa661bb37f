from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from tests import factories
from tests.people import cast, client_of

__all__ = ["cast", "client_of"]


Send = Callable[..., Any]


@pytest.fixture
def send(client_of: Callable[[str], Client]) -> Send:
    """``send("alice", "PUT /tenants/acme/weight", weight=2)`` as JSON."""

    def request(who: str, line: str, **body: Any) -> Any:
        method, path = line.split(" ")
        content = b"" if method in ("GET", "DELETE") else factories.json_of(body)
        client: Any = client_of(who) if who else Client()
        return client.generic(method, f"/api{path}", content, "application/json")

    return request
