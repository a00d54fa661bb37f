"""The list of calls and the page that explains one."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.test import Client

from dashboard.explain import explain, steps
from gateway.core.reasons import Outcome, Reason
from gateway.core.records import AttemptRecord
from tenants.models import LedgerCall
from tenants.services import ledger
from tests import factories

ClientOf = Callable[[str], Client]
LIMITED = {
    "outcome": Outcome.REJECTED,
    "reason": Reason.TOKENS_PER_MINUTE,
    "status": 429,
    "message": "60,000 tokens per minute: 59,120 used, 2,140 needed, free in 7 s.",
    "retry_after_s": 7.2,
    "ttft_s": None,
    "attempts": (),
}


def written(**fields: object) -> LedgerCall:
    ledger.insert_calls([factories.call_record("call-1", **fields)])
    return LedgerCall.objects.get(pk="call-1")


def test_a_refusal_is_explained_in_the_words_of_the_api(client_of: ClientOf) -> None:
    written(**LIMITED)
    page = client_of("alice").get("/calls/call-1/").content.decode()
    assert "tokens_per_minute" in page
    assert "59,120 used, 2,140 needed" in page


def test_a_foreign_call_does_not_exist(client_of: ClientOf) -> None:
    written()
    assert client_of("charlie").get("/calls/call-1/").status_code == 404
    assert "call-1" not in client_of("charlie").get("/calls/?tenant=acme").content.decode()


def test_the_list_holds_fifty_and_leads_to_older_ones(client_of: ClientOf) -> None:
    ledger.insert_calls(
        [factories.call_record(f"call-{n:03}", arrived_at=1e9 + n) for n in range(60)]
    )
    page = client_of("bob").get("/calls/")
    assert len(page.context["calls"]) == 50
    older = client_of("bob").get(f"/calls/?before={page.context['older']}")
    assert [call.call_id for call in older.context["calls"]][-1] == "call-000"


def test_an_operator_sees_calls_of_all_tenants(client_of: ClientOf) -> None:
    written()
    assert "call-1" in client_of("olga").get("/calls/").content.decode()
    assert "call-1" not in client_of("olga").get("/calls/?tenant=rival").content.decode()


@pytest.mark.django_db
def test_a_queue_that_took_most_of_the_wait_is_named() -> None:
    verdict = explain(written(ttft_s=0.4, queue_s=0.3))
    assert verdict.kind == "info"
    assert "were queue" in verdict.text


@pytest.mark.django_db
def test_attempts_become_bars_in_order() -> None:
    row = written(
        attempts=(
            AttemptRecord(1, "a", 0.1, 0.16, 0.1, reason=Reason.UPSTREAM_ERROR),
            AttemptRecord(2, "b", 0.16, 2.0, 0.0, first_token_s=0.3),
        )
    )
    bars = [(bar.name, bar.kind) for bar in steps(row)]
    assert bars == [
        ("queue", "queue"),
        ("attempt 1, a", "failed"),
        ("attempt 2, b", "prefill"),
        ("stream", "decode"),
    ]


@pytest.mark.django_db
def test_the_waterfall_has_no_hole() -> None:
    attempts = (
        AttemptRecord(1, "sim-1", 0.1, 0.4, 0.05, reason=Reason.UPSTREAM_ERROR),
        AttemptRecord(2, "sim-2", 0.5, 1.0, 0.0),
    )
    bars = steps(written(attempts=attempts))
    assert [(round(bar.start_s, 3), round(bar.end_s, 3)) for bar in bars] == [
        (0.0, 0.05),
        (0.05, 0.1),
        (0.1, 0.4),
        (0.4, 0.5),
        (0.5, 1.0),
    ]
    assert bars[0].name == "body, key and limits"


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("outcome", "kind"),
    [("rejected", "warn"), ("evicted", "warn"), ("aborted", "info"), ("failed", "bad")],
)
def test_every_outcome_has_a_verdict(outcome: str, kind: str) -> None:
    fields = LIMITED | {"outcome": Outcome(outcome), "retry_after_s": None}
    assert explain(written(**fields)).kind == kind


def test_a_call_refused_before_its_class_was_known_says_so(client_of: ClientOf) -> None:
    written(**LIMITED | {"klass": None, "reason": Reason.INVALID_REQUEST, "status": 400})
    for path in ("/calls/", "/calls/call-1/"):
        assert "unclassified" in client_of("alice").get(path).content.decode(), path


def test_a_call_refused_before_anything_was_known_has_no_empty_words(client_of: ClientOf) -> None:
    nothing = {"klass": None, "model": "", "pool": "", "key_id": "", "tenant": ""}
    written(**LIMITED | nothing | {"reason": Reason.INVALID_API_KEY, "status": 401})
    page = client_of("olga").get("/calls/call-1/").content.decode()
    head = re.sub(r"<[^>]+>", "", page[page.index("<h1>Call") :].split("</div>")[0])
    assert "no known caller, no known key, unclassified, no model, arrived" in head
