from __future__ import annotations

import json
import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from gateway.call_log import LOGGER, CallLog
from gateway.core.events import (
    CallEnded,
    ConfigApplied,
    Degraded,
    Event,
    ReplicaState,
    Restored,
)
from gateway.core.reasons import Outcome, Reason
from tests.gateway.factories import call_record


@pytest.fixture(autouse=True)
def _info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


def lines_of(*events: Event) -> list[dict[str, Any]]:
    written: list[bytes] = []
    log = CallLog(written.append)
    for event in events:
        log.on_event(event)
    assert all(line.endswith(b"}\n") for line in written)
    return [json.loads(line) for line in written]


def test_one_line_per_call_always_with_the_same_keys() -> None:
    refused = call_record(
        outcome=Outcome.REJECTED, reason=Reason.SHED, status=429, attempts=(), ttft_s=None
    )
    lines = lines_of(CallEnded(call_record()), CallEnded(refused), ConfigApplied(0.0, 1))
    assert [line["event"] for line in lines] == ["call", "call"]
    assert lines[0].keys() == lines[1].keys()
    assert (lines[0]["class"], lines[0]["attempts"]) == ("standard", 1)
    assert (lines[1]["reason"], lines[1]["ttft_s"]) == ("shed", None)
    assert {(line["level"], line["logger"]) for line in lines} == {("info", LOGGER)}


def test_a_line_says_when_in_utc() -> None:
    (line,) = lines_of(CallEnded(call_record()))
    assert line["timestamp"].endswith("Z")
    written = datetime.fromisoformat(line["timestamp"])
    assert abs(datetime.now(UTC) - written) < timedelta(minutes=1)


def test_calls_have_no_line_where_only_warnings_are_wanted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    assert not lines_of(CallEnded(call_record()))


def test_a_line_that_is_no_text_for_others_is_still_one_line() -> None:
    (line,) = lines_of(CallEnded(call_record(model="a\nb", replica='"')))
    assert (line["model"], line["replica"]) == ("a\nb", '"')


def test_the_words_of_an_error_are_not_logged() -> None:
    """A replica may repeat the prompt in them."""
    record = call_record(
        outcome=Outcome.FAILED, reason=Reason.UPSTREAM_REFUSED, message="bad prompt: my secret"
    )
    assert "secret" not in str(lines_of(CallEnded(record)))


def test_a_lost_replica_and_a_degraded_part_have_lines_of_their_own() -> None:
    with capture_logs() as lines:
        CallLog().on_event(ReplicaState(0.0, "pool", "r1", "down", "it does not answer"))
        CallLog().on_event(Degraded(0.0, "quota_store", "timeout"))
        CallLog().on_event(Restored(0.0, "quota_store"))
    assert [line["event"] for line in lines] == ["replica", "degraded", "restored"]
    assert (lines[0]["replica"], lines[0]["state"]) == ("r1", "down")
    assert lines[1]["log_level"] == "warning"
