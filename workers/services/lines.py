"""Writes of lines: insert, lease, renew, give back, settle.

A lease is a token and a moment. Every write names the token, so that a worker that lost its lease
changes nothing. Tokens sort by when their worker began: where too many work on one batch, the
younger go, and the oldest never does, so that two can not leave in favour of each other. Lines
whose worker died come back when the lease ends; a line that was with a worker at all of its deaths
is run alone, so that a request that kills workers takes no other with it, and fails after
ATTEMPTS. Within a batch lines start in order.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import F, Q, QuerySet

from tenants.services.transactions import transactional
from workers.models import Batch, BatchLine, LineState, Status
from workers.settings import WorkersSettings
from workers.usage import TokenUsage
from workers.validation import FoundLine

ATTEMPTS = 3
SUSPECT_DEATHS = 2
HEARTBEATS_MISSED = 2  # before a worker counts as gone and another may start beside it
INSERTED_AT_ONCE = 1000
EXHAUSTED = "attempts_exhausted"


@dataclass(frozen=True, slots=True)
class Lease:
    """``token``: 32 characters at most; the lesser one is that of the older worker."""

    batch_id: str
    token: str

    @classmethod
    def new(cls, batch_id: str, now: datetime) -> Lease:
        milliseconds = int(now.timestamp() * 1000)
        return cls(batch_id, f"{milliseconds:012x}{secrets.token_hex(10)}")


@dataclass(frozen=True, slots=True)
class LeasedLine:
    """``attempt`` counts this one. ``earlier_token``: where a dead worker may have left an
    answer. ``is_suspect``: nothing else should run beside it."""

    line_no: int
    custom_id: str
    offset: int
    length: int
    attempt: int
    earlier_token: str
    is_suspect: bool = False


@dataclass(frozen=True, slots=True)
class SettledLine:
    """Where in the part file of ``part`` the line's result is."""

    line_no: int
    is_completed: bool
    part: str
    part_offset: int
    part_length: int
    usage: TokenUsage


def insert(*, batch_id: str, lines: Sequence[FoundLine]) -> None:
    """Twice is as good as once."""
    for start in range(0, len(lines), INSERTED_AT_ONCE):
        rows = [
            BatchLine(
                batch_id=batch_id,
                line_no=line.line_no,
                custom_id=line.custom_id,
                offset=line.offset,
                length=line.length,
            )
            for line in lines[start : start + INSERTED_AT_ONCE]
        ]
        BatchLine.objects.bulk_create(rows, ignore_conflicts=True)


@transactional
def lease(*, of: Lease, most: int, may_be_alone: bool, now: datetime) -> list[LeasedLine]:
    """Lines to start at once; none when the batch is paused, cancelled or out of time.

    ``may_be_alone``: the worker has nothing else in flight.
    """
    if not _runs(of.batch_id, now):
        return []
    take_over_expired(batch_id=of.batch_id, now=now)
    older = [token for token in workers_at(batch_id=of.batch_id, now=now) if token < of.token]
    if len(older) >= _own().runners:
        return []
    ready = _lines(of.batch_id, LineState.WAITING).filter(
        Q(not_before=None) | Q(not_before__lte=now)
    )
    rows = list(_locked(ready.filter(deaths__lt=SUSPECT_DEATHS))[:most])
    if not rows and may_be_alone:
        rows = list(_locked(ready)[:1])
    until = now + timedelta(seconds=_own().lease_s)
    taken = [row for row in rows if _take(row, of.token, until)]
    return [_leased(row) for row in taken]


@transactional
def take_over_expired(*, batch_id: str, now: datetime) -> None:
    """Lines of dead workers wait again, or fail when they had all their attempts."""
    expired = _lines(batch_id, LineState.LEASED).filter(lease_until__lt=now)
    used_up = expired.filter(attempts__gte=ATTEMPTS)
    failed = used_up.update(state=LineState.FAILED, error_code=EXHAUSTED, lease_until=None)
    if failed:
        Batch.objects.filter(pk=batch_id).update(failed=F("failed") + failed)
    expired.update(state=LineState.WAITING, deaths=F("deaths") + 1, lease_until=None)


def workers_at(*, batch_id: str, now: datetime) -> set[str]:
    """Tokens of the workers that have lines in flight and have lately shown that they live."""
    seen_at = now - timedelta(seconds=HEARTBEATS_MISSED * _own().heartbeat_s)
    alive = _lines(batch_id, LineState.LEASED).filter(
        lease_until__gte=seen_at + timedelta(seconds=_own().lease_s)
    )
    return set(alive.order_by().values_list("lease_token", flat=True).distinct())


def renew(*, of: Lease, now: datetime) -> None:
    until = now + timedelta(seconds=_own().lease_s)
    _held(of).update(lease_until=until)


def give_back(*, of: Lease, line_no: int, not_before: datetime, counts: bool) -> None:
    """To be tried again. ``counts``: as an attempt; a gateway without capacity does not."""
    attempts = F("attempts") if counts else F("attempts") - 1
    _held(of).filter(line_no=line_no).update(
        state=LineState.WAITING, lease_until=None, not_before=not_before, attempts=attempts
    )


@transactional
def settle(*, of: Lease, lines: Iterable[SettledLine]) -> int:
    """How many were settled now: a line is settled once, whoever comes again."""
    done = [line for line in lines if _settle(of, line)]
    completed = sum(line.is_completed for line in done)
    if done:
        Batch.objects.filter(pk=of.batch_id).update(
            completed=F("completed") + completed,
            failed=F("failed") + len(done) - completed,
            input_tokens=F("input_tokens") + sum(one.usage.input_tokens for one in done),
            cached_tokens=F("cached_tokens") + sum(one.usage.cached_tokens for one in done),
            output_tokens=F("output_tokens") + sum(one.usage.output_tokens for one in done),
            reasoning_tokens=F("reasoning_tokens")
            + sum(one.usage.reasoning_tokens for one in done),
        )
    return len(done)


def _settle(of: Lease, line: SettledLine) -> int:
    """A lease that ran out but was not taken over still counts: the token says so."""
    open_states = (LineState.LEASED, LineState.WAITING)
    rows = BatchLine.objects.filter(
        batch_id=of.batch_id, line_no=line.line_no, lease_token=of.token, state__in=open_states
    )
    return rows.update(
        state=LineState.COMPLETED if line.is_completed else LineState.FAILED,
        lease_until=None,
        part=line.part,
        part_offset=line.part_offset,
        part_length=line.part_length,
    )


def _take(row: BatchLine, token: str, until: datetime) -> int:
    unchanged = BatchLine.objects.filter(
        pk=row.pk, state=LineState.WAITING, attempts=row.attempts, lease_token=row.lease_token
    )
    return unchanged.update(
        state=LineState.LEASED, lease_token=token, lease_until=until, attempts=F("attempts") + 1
    )


def _own() -> WorkersSettings:
    own: WorkersSettings = settings.FAIRWAY_WORKERS
    return own


def _leased(row: BatchLine) -> LeasedLine:
    """``row`` as it was before it was taken."""
    return LeasedLine(
        row.line_no,
        row.custom_id,
        row.offset,
        row.length,
        attempt=row.attempts + 1,
        earlier_token=row.lease_token,
        is_suspect=row.deaths >= SUSPECT_DEATHS,
    )


def _runs(batch_id: str, now: datetime) -> bool:
    awake = Q(paused_until=None) | Q(paused_until__lte=now)
    rows = Batch.objects.filter(awake, pk=batch_id, status=Status.IN_PROGRESS, expires_at__gt=now)
    return rows.exists()


def _lines(batch_id: str, state: LineState) -> QuerySet[BatchLine]:
    return BatchLine.objects.filter(batch_id=batch_id, state=state).order_by("line_no")


def _held(of: Lease) -> QuerySet[BatchLine]:
    return _lines(of.batch_id, LineState.LEASED).filter(lease_token=of.token)


def _locked(rows: QuerySet[BatchLine]) -> QuerySet[BatchLine]:
    """PostgreSQL: what others look at is passed over. SQLite has one writer at a time anyway."""
    return rows.select_for_update(skip_locked=True)
