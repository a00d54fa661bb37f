"""Why a call ran where it ran: kept for a week, told in words, loads to operators only."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from gateway.control.decision_words import routing_of
from gateway.core.records import CallStory
from gateway.core.routing.decision import Candidate, Decision
from gateway.core.routing.policies import ROUTING_POLICIES
from gateway.ledger import rows
from gateway.models import CallExplanation
from gateway.services import explanations
from tests.factories import call_record

pytestmark = pytest.mark.django_db
DECISION = Decision(
    policy="bounded",
    rule="affinity",
    replica="r1",
    candidates=(Candidate("r1", 4_000, 1_500, 0.12, slow_ratio=2.1),),
    open_replicas=3,
    bound_tokens=9_000.0,
    predicted_cached_tokens=1_500,
    best_cached_tokens=1_600,
    waited_s=0.25,
    liberty="look_ahead",
    start_tag=10.0,
    virtual_time=12.0,
    waiting_calls=4,
)


def keep(call_id: str, *decisions: Decision) -> None:
    rows.insert([call_record(call_id, story=CallStory(decisions))])


def test_an_operator_is_told_what_was_compared() -> None:
    keep("c1", DECISION)
    words = routing_of("c1", for_operator=True) or ""
    for part in ("r1", "holds the beginning", "1,500", "1,600", "9,000", "0.120", "before earlier"):
        assert part in words
    assert "2.1 times as slow as its peers" in words


def test_a_tenant_is_told_why_but_not_how_loaded_others_are() -> None:
    keep("c1", DECISION)
    words = routing_of("c1", for_operator=False) or ""
    assert "holds the beginning" in words
    assert "4,000" not in words
    assert "9,000" not in words


def test_a_refused_call_has_no_decision_to_tell() -> None:
    keep("c1")
    assert routing_of("c1", for_operator=True) is None


def test_a_replayed_record_is_kept_once() -> None:
    keep("c1", DECISION)
    keep("c1", DECISION)
    assert CallExplanation.objects.count() == 1


def test_it_is_forgotten_after_a_week() -> None:
    keep("c1", DECISION)
    assert explanations.purge(now=timezone.now() + timedelta(days=6)) == 0
    old = timezone.now() - timedelta(days=8)
    CallExplanation.objects.update(at=old)
    assert explanations.purge() == 1


def test_most_calls_are_not_kept() -> None:
    rows.insert([call_record("c1")])
    assert routing_of("c1", for_operator=True) is None


def test_every_rule_has_words() -> None:
    from gateway.control.decision_words import _RULES

    assert {"affinity", "seed", "copy", "session", "least_load", "only_open"} <= _RULES.keys()
    assert len(_RULES) >= len(ROUTING_POLICIES)
