"""What happened to a call, and why? In the words that its caller got, with the times beside them.

``explain`` gives the verdict: a headline, what it was about, what to do. ``steps`` cuts the call's
life into the bars of a waterfall, in seconds since arrival. Nothing is invented: a moment that was
not recorded has no bar.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dashboard.numbers import count, duration
from gateway.core.reasons import REASONS, Outcome, Reason
from tenants.models import LedgerAttempt, LedgerCall

OWN_LIMITS = {
    Reason.TOKENS_PER_MINUTE,
    Reason.REQUESTS_PER_MINUTE,
    Reason.CONCURRENCY,
    Reason.DAILY_BUDGET,
    Reason.MONTHLY_BUDGET,
    Reason.CREDIT_EXHAUSTED,
    Reason.ENQUEUED_TOKENS,
}
OVERLOAD = {Reason.SHED, Reason.QUEUE_FULL, Reason.QUEUE_TIMEOUT}
SLOW_QUEUE_RATIO = 0.5  # of TTFT spent waiting: worth a word
SHOWN_S = 0.001  # a shorter wait has no bar


@dataclass(frozen=True, slots=True)
class Verdict:
    """``kind``: ok, info, warn or bad."""

    kind: str
    headline: str
    text: str


@dataclass(frozen=True, slots=True)
class Step:
    """One bar. ``kind`` names its colour: queue, prefill, decode, failed or other."""

    name: str
    kind: str
    start_s: float
    end_s: float
    words: str

    @property
    def length_s(self) -> float:
        return self.end_s - self.start_s


def explain(call: LedgerCall) -> Verdict:
    reason = Reason(call.reason) if call.reason in set(Reason) else None
    if call.outcome == Outcome.COMPLETED:
        return _completed(call)
    said = call.message or (REASONS[reason].meaning if reason else "No reason was recorded.")
    text = " ".join(part for part in (said, _advice(call, reason)) if part)
    verb = "Refused by the replica" if reason is Reason.UPSTREAM_REFUSED else _verb(call.outcome)
    headline = f"{verb}: {call.reason or call.outcome}, status {call.status}."
    return Verdict(_kind(call.outcome, reason), headline, text)


def _kind(outcome: str, reason: Reason | None) -> str:
    if outcome == Outcome.FAILED or reason is Reason.INTERNAL:
        return "bad"
    return "info" if outcome == Outcome.ABORTED else "warn"


def _verb(outcome: str) -> str:
    return {
        Outcome.REJECTED.value: "Refused before the queue",
        Outcome.EVICTED.value: "Left the queue undispatched",
        Outcome.ABORTED.value: "Ended by its caller or an operator",
        Outcome.FAILED.value: "Failed in the replica",
    }.get(outcome, outcome.capitalize())


def _advice(call: LedgerCall, reason: Reason | None) -> str:
    if call.retry_after_s is not None:
        return f"The caller was told to retry after {duration(call.retry_after_s)}."
    if reason in OWN_LIMITS:
        return "An operator can raise the limit."
    if reason in OVERLOAD:
        return "Capacity was short; a retry helps."
    return ""


def _completed(call: LedgerCall) -> Verdict:
    tries = "" if len(call.attempts.all()) < 2 else f" in {len(call.attempts.all())} attempts"
    if call.ttft_s is None:
        return Verdict("ok", f"Completed{tries}.", "No first token was recorded.")
    headline = f"Completed{tries}: first token after {duration(call.ttft_s)}."
    if call.queue_s is not None and call.queue_s > SLOW_QUEUE_RATIO * call.ttft_s:
        text = f"{duration(call.queue_s)} of it were queue: no slot was free for its class."
        return Verdict("info", headline, text)
    waited = f" after {duration(call.queue_s)} in the queue" if call.queue_s is not None else ""
    return Verdict("ok", headline, f"Served by {call.replica or 'a replica'}{waited}.")


def steps(call: LedgerCall) -> tuple[Step, ...]:
    return tuple(_with_gaps((*_attempts(call), *_undispatched(call))))


def _with_gaps(bars: tuple[Step, ...]) -> Iterator[Step]:
    """What lies before a bar and belongs to none: checks and limits first, pauses later."""
    told_s = 0.0
    for bar in bars:
        gap_s = bar.start_s - told_s
        if gap_s >= SHOWN_S:
            name = "pause before the next attempt" if told_s else "body, key and limits"
            yield Step(name, "other", told_s, bar.start_s, duration(gap_s))
        yield bar
        told_s = max(told_s, bar.end_s)


def _undispatched(call: LedgerCall) -> Iterator[Step]:
    if call.queue_s is not None and not call.attempts.all():
        start_s = max(0.0, call.duration_s - call.queue_s)
        yield Step("queue", "queue", start_s, call.duration_s, duration(call.queue_s))


def _attempts(call: LedgerCall) -> Iterator[Step]:
    for attempt in call.attempts.all():
        yield from _one_attempt(call, attempt)


def _one_attempt(call: LedgerCall, attempt: LedgerAttempt) -> Iterator[Step]:
    if attempt.queue_s >= SHOWN_S:
        start = max(0.0, attempt.dispatched_s - attempt.queue_s)
        yield Step("queue", "queue", start, attempt.dispatched_s, duration(attempt.queue_s))
    name = f"attempt {attempt.number}, {attempt.replica}"
    first = attempt.first_token_s
    if first is None:
        words = attempt.reason or "no token"
        yield Step(name, "failed", attempt.dispatched_s, attempt.ended_s, words)
        return
    prefill_s = duration(first - attempt.dispatched_s)
    yield Step(name, "prefill", attempt.dispatched_s, first, f"{prefill_s} to first token")
    tokens = call.completion_tokens or attempt.received_tokens
    words = f"{duration(attempt.ended_s - first)}, {count(tokens)} tokens"
    yield Step("stream", "failed" if attempt.reason else "decode", first, attempt.ended_s, words)
