"""The truth is in the rows: whatever messages are lost, what is to be done is sent again."""

from __future__ import annotations

import pytest
from celery import Celery
from kombu.exceptions import OperationalError

from tests.workers.batches import Desk, jsonl, request
from tests.workers.test_closing import answered
from workers import messages
from workers.models import Batch, Status
from workers.services import batches, sweeping


def swept(desk: Desk, after_s: float) -> list[str]:
    sent: list[str] = []
    sweeping.sweep(now=desk.later(after_s), send=lambda task, _: sent.append(task))
    return sent


def test_a_new_batch_is_sent_at_once_and_again_if_nobody_came(desk: Desk) -> None:
    """Row 69."""
    batch = desk.batch(jsonl([request("a")]))
    assert desk.sent == [(messages.VALIDATE, batch.batch_id)]
    assert swept(desk, 1) == []
    assert swept(desk, 5) == [messages.VALIDATE]
    assert swept(desk, 6) == []


def test_a_batch_that_is_being_validated_is_left_alone(desk: Desk) -> None:
    batch = desk.batch(jsonl([request("a")]))
    batches.claim(batch_id=batch.batch_id, statuses=(Status.VALIDATING,), now=desk.now)
    assert swept(desk, 60) == []
    assert swept(desk, 91) == [messages.VALIDATE]


def test_waiting_lines_get_as_many_workers_as_may(desk: Desk) -> None:
    batch = desk.running(9)
    assert swept(desk, 5) == [messages.RUN] * 2
    desk.lease(batch, "a", 1, after_s=6)
    assert swept(desk, 12) == [messages.RUN]


def test_a_batch_whose_lines_all_run_gets_none(desk: Desk) -> None:
    desk.lease(desk.running(2), "a")
    assert swept(desk, 10) == []


def test_a_paused_batch_gets_none_before_its_time(desk: Desk) -> None:
    batch = desk.running(2)
    batches.pause(batch_id=batch.batch_id, until=desk.later(30))
    assert swept(desk, 20) == []
    assert swept(desk, 31) == [messages.RUN] * 2


def test_lines_of_a_dead_worker_are_found(desk: Desk) -> None:
    desk.lease(desk.running(2), "dead")
    assert swept(desk, 59) == []
    assert swept(desk, 61) == [messages.RUN] * 2


def test_a_settled_batch_is_closed(desk: Desk) -> None:
    batch = desk.running(1)
    desk.lease(batch, "a")
    answered(desk, batch, 1)
    assert swept(desk, 1) == [messages.CLOSE]


def test_a_batch_out_of_time_is_closed(desk: Desk) -> None:
    desk.running(1)
    assert swept(desk, 86_400) == [messages.CLOSE]


def test_a_cancelled_batch_is_closed(desk: Desk) -> None:
    batch = desk.running(1)
    batches.cancel(tenant="acme", batch_id=batch.batch_id, now=desk.now)
    assert swept(desk, 1) == [messages.CLOSE]


def test_a_finished_batch_gets_nothing(desk: Desk) -> None:
    batch = desk.running(1)
    desk.closed(batch, after_s=86_400)
    assert swept(desk, 90_000) == []


def test_old_batches_are_forgotten_with_their_lines(desk: Desk) -> None:
    desk.closed(desk.running(3), after_s=86_400)
    assert sweeping.forget_old(storage=desk.storage, now=desk.later(20 * 86_400)) == 0
    assert sweeping.forget_old(storage=desk.storage, now=desk.later(32 * 86_400)) == 1
    assert not Batch.objects.exists()


def test_a_broker_that_is_away_fails_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object, **__: object) -> None:
        raise OperationalError("connection refused")

    monkeypatch.setattr(Celery, "send_task", away)
    messages.send(messages.RUN, "batch_x")
