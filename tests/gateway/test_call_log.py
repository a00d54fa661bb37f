from __future__ import annotations

from structlog.testing import capture_logs

from gateway import call_log
from gateway.core.events import CallEnded, ConfigApplied, Degraded, ReplicaState, Restored
from gateway.core.reasons import Outcome, Reason
from tests.gateway.factories import call_record


def test_one_line_per_call_always_with_the_same_keys() -> None:
    refused = call_record(
        outcome=Outcome.REJECTED, reason=Reason.SHED, status=429, attempts=(), ttft_s=None
    )
    with capture_logs() as lines:
        call_log.on_event(CallEnded(call_record()))
        call_log.on_event(CallEnded(refused))
        call_log.on_event(ConfigApplied(0.0, 1))
    assert [line["event"] for line in lines] == ["call", "call"]
    assert lines[0].keys() == lines[1].keys()
    assert (lines[1]["reason"], lines[1]["ttft_s"]) == ("shed", None)
    assert {line["log_level"] for line in lines} == {"info"}


def test_the_words_of_an_error_are_not_logged() -> None:
    """A replica may repeat the prompt in them."""
    record = call_record(
        outcome=Outcome.FAILED, reason=Reason.UPSTREAM_REFUSED, message="bad prompt: my secret"
    )
    with capture_logs() as lines:
        call_log.on_event(CallEnded(record))
    assert "secret" not in str(lines)


def test_a_lost_replica_and_a_degraded_part_have_lines_of_their_own() -> None:
    with capture_logs() as lines:
        call_log.on_event(ReplicaState(0.0, "pool", "r1", "down", "it does not answer"))
        call_log.on_event(Degraded(0.0, "quota_store", "timeout"))
        call_log.on_event(Restored(0.0, "quota_store"))
    assert [line["event"] for line in lines] == ["replica", "degraded", "restored"]
    assert (lines[0]["replica"], lines[0]["state"]) == ("r1", "down")
    assert lines[1]["log_level"] == "warning"
