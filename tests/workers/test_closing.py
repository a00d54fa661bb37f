"""The end of a batch: two files, each custom id once, whatever had happened to its line."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.core.errors import Rejected
from tests.workers.batches import Desk, jsonl, request
from workers.models import Batch, StoredFile
from workers.results import Answer, Part
from workers.services import batches, closing, lines
from workers.services.lines import Lease
from workers.usage import TokenUsage


def answered(desk: Desk, batch: Batch, *numbers: int, status: int = 200, worker: str = "a") -> None:
    """These lines get an answer."""
    part = Part(desk.storage.results(batch.batch_id), worker)
    answers = [
        Answer(no, f"r{no}", status, f"call-{no}", b'{"n": %d}' % no, TokenUsage(1, 0, 1))
        for no in numbers
    ]
    done = part.append(answers)
    part.close()
    lines.settle(of=Lease(batch.batch_id, worker), lines=done)


def told(desk: Desk, batch: Batch) -> tuple[list[str], dict[str, Any]]:
    """Custom ids of the output file, and what the error file says of the others."""
    output = [line["custom_id"] for line in desk.results(batch.output_file_id)]
    errors = {
        line["custom_id"]: line["error"]["code"] if line["error"] else line["response"]
        for line in desk.results(batch.error_file_id)
    }
    return output, errors


def test_answers_come_in_the_order_of_the_lines(desk: Desk) -> None:
    batch = desk.running(4)
    desk.lease(batch, "a", 4)
    answered(desk, batch, 3, 1)
    answered(desk, batch, 4, 2)
    batch = desk.closed(batch)
    assert (batch.status, batch.error_file_id) == ("completed", "")
    first = desk.results(batch.output_file_id)[0]
    assert first["response"] == {"status_code": 200, "request_id": "call-1", "body": {"n": 1}}
    assert (first["error"], first["id"][:10]) == (None, "batch_req_")
    assert told(desk, batch)[0] == ["r1", "r2", "r3", "r4"]


def test_refused_lines_are_in_the_error_file(desk: Desk) -> None:
    batch = desk.running(2)
    desk.lease(batch, "a", 2)
    answered(desk, batch, 1)
    answered(desk, batch, 2, status=400)
    batch = desk.closed(batch)
    output, errors = told(desk, batch)
    assert output == ["r1"]
    assert errors["r2"]["status_code"] == 400
    assert (batch.total, batch.completed, batch.failed) == (2, 1, 1)


def test_an_expired_batch_delivers_what_was_finished(desk: Desk) -> None:
    """Row 73."""
    batch = desk.running(5)
    desk.lease(batch, "a", 2)
    answered(desk, batch, 1, 2)
    batch = desk.closed(batch, after_s=86_400)
    expired = dict.fromkeys(("r3", "r4", "r5"), "batch_expired")
    assert batch.status == "expired"
    assert told(desk, batch) == (["r1", "r2"], expired)
    assert (batch.completed, batch.failed) == (2, 3)


def test_a_cancelled_batch_delivers_what_was_finished(desk: Desk) -> None:
    """Row 72."""
    batch = desk.running(3)
    desk.lease(batch, "a", 1)
    answered(desk, batch, 1)
    batches.cancel(tenant="acme", batch_id=batch.batch_id, now=desk.now)
    batch = desk.closed(batch)
    assert batch.status == "cancelled"
    assert told(desk, batch) == (["r1"], dict.fromkeys(("r2", "r3"), "batch_cancelled"))
    assert batch.completed + batch.failed == batch.total


def test_a_batch_cancelled_before_it_ran_has_no_files(desk: Desk) -> None:
    batch = desk.batch(jsonl([request("r1")]))
    batches.cancel(tenant="acme", batch_id=batch.batch_id, now=desk.now)
    batch = desk.closed(batch)
    assert (batch.status, batch.output_file_id, batch.error_file_id) == ("cancelled", "", "")


def test_a_line_that_finishes_while_its_batch_closes_is_too_late(desk: Desk) -> None:
    batch = desk.running(1)
    desk.lease(batch, "slow")
    batch = desk.closed(batch, after_s=86_400)
    answered(desk, batch, 1, worker="slow")
    batch.refresh_from_db()
    assert (batch.completed, batch.failed) == (0, 1)


def test_of_two_that_close_one_leaves_files(desk: Desk) -> None:
    batch = desk.running(1)
    desk.lease(batch, "a")
    answered(desk, batch, 1)
    earlier = desk.closed(batch)
    assert not closing.close(batch=earlier, storage=desk.storage, now=desk.now)
    batch.refresh_from_db()
    assert StoredFile.objects.filter(purpose="batch_output").count() == 1
    assert len(list(desk.storage.path(batch.output_file_id).parent.glob("file-*"))) == 2


def test_results_of_a_closed_batch_are_in_its_files_only(desk: Desk) -> None:
    batch = desk.running(1)
    desk.lease(batch, "a")
    answered(desk, batch, 1)
    desk.closed(batch)
    assert not desk.storage.results(batch.batch_id).exists()


def test_what_is_finished_cannot_be_cancelled(desk: Desk) -> None:
    batch = desk.running(1)
    desk.lease(batch, "a")
    answered(desk, batch, 1)
    desk.closed(batch)
    with pytest.raises(Rejected) as refusal:
        batches.cancel(tenant="acme", batch_id=batch.batch_id, now=desk.now)
    assert refusal.value.status == 409
