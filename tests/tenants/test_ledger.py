"""The ledger: one row per call, sums of periods, strange text."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from django.utils import timezone

from gateway.core.limits.periods import day_of, month_of
from gateway.core.priority import PriorityClass
from gateway.core.reasons import Outcome, Reason
from gateway.core.records import AttemptRecord, CallRecord
from tenants import errors
from tenants.ledger_rows import NOT_HERE
from tenants.models import LedgerAttempt, LedgerCall
from tenants.selectors import ledger as select
from tenants.selectors.ledger import Span, day_span, month_span
from tenants.services import ledger
from tests.factories import call_record

pytestmark = pytest.mark.django_db


def insert(**fields: Any) -> CallRecord:
    record = call_record(**fields)
    ledger.insert_calls([record])
    return record


def test_row_holds_every_field_of_the_record() -> None:
    attempts = (
        AttemptRecord(1, "sim-1", 0.01, 0.2, 0.0, reason=Reason.UPSTREAM_ERROR, rule="probe"),
        AttemptRecord(2, "sim-2", 0.21, 1.0, 0.01, None, 0.3, 0.4, 0.5, 20, "least_inflight"),
    )
    record = insert(
        klass=PriorityClass.BATCH, outcome=Outcome.FAILED, reason=Reason.STREAM_STALLED,
        message="stalled", line_no=3, batch_id="b1", degraded=True, attempts=attempts,
    )  # fmt: skip
    row = select.call(record.call_id)
    for name in record.__struct_fields__:
        if name not in NOT_HERE:
            assert getattr(row, name) == getattr(record, name), name
    assert row.arrived_at.timestamp() == pytest.approx(record.arrived_at, abs=1e-5)
    stored = [{f: getattr(a, f) or None for f in AttemptRecord.__struct_fields__}
              for a in row.attempts.all()]  # fmt: skip
    assert stored == [
        {f: getattr(a, f) or None for f in AttemptRecord.__struct_fields__} for a in attempts
    ]


def test_call_is_inserted_once_whatever_is_replayed() -> None:
    records = [call_record() for _ in range(1000)]
    counts = [ledger.insert_calls(part) for part in (records[:600], records, records + records)]
    assert counts == [600, 400, 0]
    assert (LedgerCall.objects.count(), LedgerAttempt.objects.count()) == (1000, 1000)


def test_nothing_to_insert_is_no_error() -> None:
    assert ledger.insert_calls([]) == 0


@pytest.mark.parametrize("text", ["a\x00b", "\ud800", "x" * 5000, "\u202e", "é" * 400, "😀" * 300])
def test_strange_text_never_holds_up_the_ledger(text: str) -> None:
    """S35."""
    record = insert(message=text, client=text, model=text, request_id=text)
    assert select.call(record.call_id).message


def test_at_least_5000_rows_a_second() -> None:
    """CPU time, so that a busy machine does not matter."""
    records = [call_record() for _ in range(5_000)]
    started = time.process_time()
    assert ledger.insert_calls(records) == 5_000
    assert time.process_time() - started <= 1.0


def test_call_of_another_tenant_is_not_found() -> None:
    """S09."""
    record = insert()
    with pytest.raises(errors.NotFound):
        select.call(record.call_id, tenant="rival")


def test_pages_of_recent_calls_cover_all_once_newest_first() -> None:
    at = time.time()
    for n in range(7):
        insert(call_id=f"c{n}", arrived_at=at + n // 2)
    seen: list[str] = []
    while page := list(select.recent_calls(tenant="acme", before=seen[-1] if seen else None)[:3]):
        seen += [row.call_id for row in page]
    assert seen == ["c6", "c5", "c4", "c3", "c2", "c1", "c0"]


def test_totals_by_model_and_key() -> None:
    insert(model="a", key_id="k1", prompt_tokens=5, completion_tokens=1, service_cost=2.5)
    insert(model="a", key_id="k2", prompt_tokens=7, completion_tokens=2)
    insert(model="b", outcome=Outcome.REJECTED, prompt_tokens=0, completion_tokens=0)
    insert(tenant="rival")
    span = day_span(timezone.now())
    by_model = select.totals_by(group="model", span=span, tenant="acme")
    assert [(t.group, t.calls, t.completed, t.tokens) for t in by_model] == [
        ("a", 2, 2, 15),
        ("b", 1, 0, 0),
    ]
    assert select.totals(span=span, tenant="acme", key_id="k1").service_cost == 2.5
    assert select.totals(span=span).calls == 4


def test_group_and_range_are_checked() -> None:
    now = timezone.now()
    with pytest.raises(errors.Invalid, match="not grouped by"):
        select.totals_by(group="message", span=day_span(now))
    with pytest.raises(errors.Invalid, match="empty or too long"):
        Span(now, now)
    with pytest.raises(errors.Invalid, match="empty or too long"):
        Span(now - timedelta(days=400), now)


BOUNDARIES = [
    datetime(2027, 1, 1, tzinfo=UTC),  # year
    datetime(2028, 3, 1, tzinfo=UTC),  # after a leap day
    datetime(2026, 3, 29, 1, tzinfo=UTC),  # clocks go forward in Europe
    datetime(2026, 10, 25, 1, tzinfo=UTC),  # clocks go back in Europe
]


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_adjacent_periods_count_every_call_once(boundary: datetime) -> None:
    """Row 78: at each boundary the sums of the periods around it add up to all calls."""
    moments = [boundary + timedelta(seconds=s) for s in (-3600, -1, 0, 1, 3600)]
    for at in moments:
        insert(arrived_at=at.timestamp(), prompt_tokens=1, completion_tokens=0)
    for span_of in (day_span, month_span):
        spans = {span_of(at) for at in moments}
        assert sum(select.totals(span=span).tokens for span in spans) == len(moments)


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_span_of_a_moment_is_the_period_that_names_its_budget(boundary: datetime) -> None:
    """Row 78: the ledger and the quota store agree on which period a moment belongs to."""
    for at in (boundary - timedelta(microseconds=1), boundary, boundary + timedelta(hours=1)):
        for span, period in (
            (day_span(at), day_of(at.timestamp())),
            (month_span(at), month_of(at.timestamp())),
        ):
            assert span.since <= at < span.until
            assert f"{span.since:%Y-%m-%d}".startswith(period.name)
            ends = at.timestamp() + period.ends_in_s
            assert span.until.timestamp() == pytest.approx(ends, abs=1e-3)


def test_old_calls_are_purged_with_their_attempts() -> None:
    insert(arrived_at=time.time() - 100 * 86_400)
    kept = insert()
    assert ledger.purge(before=timezone.now() - timedelta(days=90)) == 1
    assert LedgerAttempt.objects.get().call_id == kept.call_id


def test_record_survives_the_journal() -> None:
    record = call_record()
    copy = msgspec.msgpack.decode(msgspec.msgpack.encode(record), type=CallRecord)
    assert (ledger.insert_calls([record]), ledger.insert_calls([copy])) == (1, 0)


def test_a_call_without_a_class_is_told_as_unclassified_and_uses_nothing() -> None:
    insert(klass=PriorityClass.STANDARD)
    insert(klass=None)
    span = day_span(timezone.now())
    named = {one.group: one.calls for one in select.totals_by(group="klass", span=span)}
    assert named == {"standard": 1, "unclassified": 1}
    assert [one.klass for one in select.consumption(span)] == [PriorityClass.STANDARD]
