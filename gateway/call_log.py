"""What does the log say of a call? One INFO line at its end, always with the same keys. Between
them it tells which replica went or came back, and which part is degraded.

Never a prompt, never a key: the message of an error is left out, since a replica's own words may
repeat what the caller sent; the reason says the same. Durations are seconds.
"""

from __future__ import annotations

import structlog

from gateway.core.events import CallEnded, Degraded, Event, ReplicaState, Restored
from gateway.core.priority import label_of
from gateway.core.records import CallRecord

log = structlog.get_logger("fairway.call")
state_log = structlog.get_logger("fairway.state")


def on_event(event: Event) -> None:
    """A sink of the event bus."""
    match event:
        case CallEnded(record=record):
            log.info("call", **line_of(record))
        case ReplicaState():
            change = {"pool": event.pool, "replica": event.replica, "state": event.state}
            state_log.info("replica", **change, why=event.why)
        case Degraded(part=part, why=why):
            state_log.warning("degraded", part=part, why=why)
        case Restored(part=part):
            state_log.info("restored", part=part)
        case _:
            pass


def line_of(record: CallRecord) -> dict[str, object]:
    return {
        "call_id": record.call_id,
        "request_id": record.request_id,
        "tenant": record.tenant,
        "key_id": record.key_id,
        "endpoint": record.endpoint,
        "model": record.model,
        "pool": record.pool,
        "class": label_of(record.klass),
        "stream": record.stream,
        "outcome": str(record.outcome),
        "reason": str(record.reason or ""),
        "status": record.status,
        "replica": record.replica,
        "attempts": len(record.attempts),
        "prompt_tokens": record.prompt_tokens,
        "cached_tokens": record.cached_tokens,
        "completion_tokens": record.completion_tokens,
        "reserved_tokens": record.reserved_tokens,
        "estimated": record.estimated,
        "charge_microcredits": record.charge_microcredits,
        "queue_s": record.queue_s,
        "ttft_s": record.ttft_s,
        "tpot_s": record.tpot_s,
        "e2e_s": record.e2e_s,
        "duration_s": record.duration_s,
        "loop_lag_s": record.loop_lag_s,
        "retry_after_s": record.retry_after_s,
        "retry_count": record.retry_count,
        "batch_id": record.batch_id,
        "line_no": record.line_no,
        "config_version": record.config_version,
        "degraded": record.degraded,
    }
