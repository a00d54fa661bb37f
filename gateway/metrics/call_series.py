"""What does one ended call add to which series? Children are resolved once per kind of call.

A kind is (tenant label, class, pool, model, endpoint, outcome, reason): all of bounded number, so
the cache is bounded too.
"""

from __future__ import annotations

from gateway.core.priority import label_of
from gateway.core.reasons import LOAD_REASONS, Outcome, Reason
from gateway.core.records import AttemptRecord, CallRecord
from gateway.metrics.families import Families
from gateway.metrics.labels import model_label, operation_label
from gateway.metrics.tallies import Spread, Spreads, Tally

PROVIDER = "fairway"


class CallSeries:
    """All children for one kind of call. A kind that never reaches a replica has counts alone, no
    series that would stay at zero."""

    def __init__(self, families: Families, record: CallRecord, tenant: str) -> None:
        self._families = families
        self._tenant, self._pool = tenant, record.pool
        self._reason = str(record.reason or "")
        klass, outcome = label_of(record.klass), str(record.outcome)
        self._queue_labels = (record.pool, klass, outcome)
        self._operation = (
            operation_label(record.endpoint),
            PROVIDER,
            model_label(record.model, record.pool),
        )
        self._calls = families.calls.labels(tenant, klass, record.pool, outcome, self._reason)
        self._shed: Tally | None = None
        self._queue_seconds: Spread | None = None
        if record.reason in LOAD_REASONS:
            self._shed = families.shed.labels(record.pool, klass, self._reason)
        self._served: ServedSeries | None = None

    def observe(self, record: CallRecord) -> None:
        self._calls.total += 1
        if self._shed is not None:
            self._shed.total += 1
        if record.queue_s is not None:
            self._observe_queued(record.queue_s)
        if record.attempts or record.outcome is Outcome.COMPLETED:
            if self._served is None:
                self._served = ServedSeries(
                    self._families, self._operation, (self._tenant, self._pool), self._reason
                )
            self._served.observe(record)

    def _observe_queued(self, queue_s: float) -> None:
        if self._queue_seconds is None:
            self._queue_seconds = self._families.queue_seconds.labels(*self._queue_labels)
        self._queue_seconds.observe(queue_s)


class ServedSeries:
    """Of calls that reached a replica. ``payer``: tenant label and pool."""

    def __init__(
        self,
        families: Families,
        operation: tuple[str, str, str],
        payer: tuple[str, str],
        reason: str,
    ) -> None:
        tenant, pool = payer
        self._families = families
        self._operation = operation
        self._duration = families.request_duration.labels(*operation, reason)
        self._ttft = families.ttft.labels(*operation)
        self._tpot = families.tpot.labels(*operation)
        self._usage = _by_type(families.token_usage, operation)
        self._tokens = tuple(
            families.tokens.labels(tenant, pool, kind) for kind in ("input", "cached", "output")
        )
        self._admission = tuple(
            families.admission_tokens.labels(pool, kind) for kind in ("estimated", "actual")
        )
        self._charges = families.charges.labels(tenant)
        self._retries = families.retries.labels(pool)
        self._wasted = families.wasted_tokens.labels(pool)
        self._attempt_duration: Spread | None = None  # of attempts that did not fail
        self._first_chunk = families.attempt_first_chunk.labels(*operation)

    def observe(self, record: CallRecord) -> None:
        if record.attempts:
            self._observe_dispatched(record)
        if record.outcome is Outcome.COMPLETED:
            self._observe_completed(record)

    def _observe_dispatched(self, record: CallRecord) -> None:
        self._duration.observe(record.duration_s)
        counts = (record.prompt_tokens, record.cached_tokens, record.completion_tokens)
        for child, tokens in zip(self._tokens, counts, strict=True):
            child.total += tokens
        estimated, actual = self._admission
        estimated.total += record.reserved_tokens
        actual.total += record.prompt_tokens + record.completion_tokens
        self._charges.total += record.charge_microcredits
        for attempt in record.attempts:
            self._observe_attempt(attempt)
        *earlier, last = record.attempts
        self._retries.total += len(earlier)
        lost = sum(attempt.received_tokens for attempt in earlier)
        charged_nothing = record.outcome is Outcome.FAILED and not record.completion_tokens
        self._wasted.total += lost + (last.received_tokens if charged_nothing else 0)

    def _observe_completed(self, record: CallRecord) -> None:
        if record.ttft_s is not None:
            self._ttft.observe(record.ttft_s)
        if record.tpot_s is not None:
            self._tpot.observe(record.tpot_s)
        given, produced = self._usage
        given.observe(record.prompt_tokens)
        produced.observe(record.completion_tokens)

    def _observe_attempt(self, attempt: AttemptRecord) -> None:
        self._durations(attempt.reason).observe(attempt.ended_s - attempt.dispatched_s)
        if attempt.first_event_s is not None:
            self._first_chunk.observe(attempt.first_event_s - attempt.dispatched_s)

    def _durations(self, reason: Reason | None) -> Spread:
        if reason is not None:
            return self._families.attempt_duration.labels(*self._operation, str(reason))
        if self._attempt_duration is None:
            self._attempt_duration = self._families.attempt_duration.labels(*self._operation, "")
        return self._attempt_duration


def _by_type(usage: Spreads, operation: tuple[str, str, str]) -> tuple[Spread, Spread]:
    return usage.labels(*operation, "input"), usage.labels(*operation, "output")
