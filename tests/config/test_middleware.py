from __future__ import annotations

import pytest
from django.db import OperationalError
from django.test import Client

from tenants import principals


def test_a_page_without_its_database_says_503_and_when_to_come_back(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row 34"""

    def away(*arguments: object, **named: object) -> None:
        raise OperationalError("couldn't get a connection after 3.00 sec")

    monkeypatch.setattr(principals, "of_key", away)
    answer = client.get("/api/v1/me", headers={"authorization": "Bearer fw-x"})
    assert answer.status_code == 503
    assert int(answer.headers["Retry-After"]) >= 1
