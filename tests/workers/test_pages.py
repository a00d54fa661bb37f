"""The list of batches: of everybody for operators, of the own tenant for members."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from tests.people import cast, client_of
from workers import pages
from workers.models import Batch, Status

__all__ = ["cast", "client_of"]

pytestmark = pytest.mark.django_db
ClientOf = Callable[[str], Client]


def ended(batch_id: str, tenant: str = "acme", **fields: object) -> Batch:
    now = timezone.now()
    values: dict[str, object] = {
        "key_id": "AbCd1234", "input_file_id": "file-1", "endpoint": "/v1/chat/completions",
        "completion_window": "24h", "status": Status.COMPLETED, "total": 9, "completed": 7,
        "failed": 2, "created_at": now, "expires_at": now, "finished_at": now,
    }  # fmt: skip
    return Batch.objects.create(batch_id=batch_id, tenant=tenant, **values | fields)


def page(client: Client) -> str:
    answer = client.get("/batches/")
    assert answer.status_code == 200
    return answer.content.decode()


@pytest.mark.parametrize("who", ["alice", "olga"])
def test_an_ended_batch_is_listed_with_its_end_and_counts(client_of: ClientOf, who: str) -> None:
    ended("batch_one")
    problem = {"code": "model_mismatch", "message": "It names another model.", "line": 1234}
    ended("batch_two", status=Status.FAILED, total=0, completed=0, failed=0, errors=[problem])
    shown = page(client_of(who))
    assert "7 of 9, 2 failed" in shown
    assert ("Completed" in shown, "Failed" in shown) == (True, True)
    assert "Line 1,234: It names another model." in shown


def test_a_member_sees_the_batches_of_the_own_tenant_alone(client_of: ClientOf) -> None:
    ended("batch_foreign", tenant="rival")
    assert "No batch yet" in page(client_of("alice"))
    assert "batch-batch_foreign" in page(client_of("olga"))


def test_the_newest_come_first_and_no_more_than_fit(
    client_of: ClientOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "NEWEST", 2)
    for age in range(3):
        ended(f"batch_{age}", created_at=timezone.now() - timedelta(hours=age))
    shown = page(client_of("olga"))
    assert "The newest 2" in shown
    assert shown.index("batch-batch_0") < shown.index("batch-batch_1")
    assert "batch-batch_2" not in shown


def test_pages_lead_to_it(client_of: ClientOf) -> None:
    for who in ("alice", "olga"):
        assert 'href="/batches/"' in client_of(who).get("/").content.decode()
