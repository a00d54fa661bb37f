"""What happened to a call, in one or two sentences that its caller understands?

A refusal repeats the words that the caller got. Seconds are rounded to what matters.
"""

from __future__ import annotations

from gateway.active_calls import ActiveCall, Phase
from gateway.core.reasons import REASONS, Outcome, Reason
from tenants.models import LedgerCall

_ENDED = {
    Outcome.REJECTED.value: "It was refused before the queue",
    Outcome.EVICTED.value: "It left the queue without having been sent to a replica",
    Outcome.ABORTED.value: "It was ended by its caller or an operator",
    Outcome.FAILED.value: "It failed after it had been sent to a replica",
}


def of_running(call: ActiveCall, running_s: float) -> str:
    where = f" on {call.replica}" if call.replica else ""
    doing = {
        Phase.ADMITTED: "admitted and waits for a free place on a replica",
        Phase.DISPATCHED: f"sent to a replica{where}, which has not begun",
        Phase.ACCEPTED: f"being worked on{where}; its caller has no content yet",
        Phase.RELAYING: f"streaming{where}: {call.received_tokens:,} tokens so far",
    }
    return f"It has been running for {_seconds(running_s)} and is {doing[call.phase]}."


def of_ended(row: LedgerCall) -> str:
    if row.outcome == Outcome.COMPLETED:
        return _completed(row)
    meaning = REASONS[Reason(row.reason)].meaning if row.reason in set(Reason) else ""
    why = row.message or meaning or "No reason was recorded."
    said = f"{_ENDED.get(row.outcome, 'It ended')} ({row.reason}): {why}"
    if row.retry_after_s is not None:
        said += f" It was told to come back after {_seconds(row.retry_after_s)}."
    return said


def _completed(row: LedgerCall) -> str:
    said = f"It completed in {_seconds(row.duration_s)}"
    if row.ttft_s is not None:
        said += f", with its first token after {_seconds(row.ttft_s)}"
    if row.queue_s:
        said += f", of which {_seconds(row.queue_s)} in the queue"
    said += f". {row.cached_tokens:,} of {row.prompt_tokens:,} prompt tokens came from a cache."
    tries = row.attempts.count()
    return f"{said} It took {tries} attempts." if tries > 1 else said


def _seconds(value: float) -> str:
    if value < 1:
        return f"{value * 1000:.0f} ms"
    return f"{value:.1f} s" if value < 60 else f"{value / 60:.1f} min"
