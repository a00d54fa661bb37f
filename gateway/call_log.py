"""What does the log say of a call? One INFO line at its end, always with the same keys. Between
them it tells which replica went or came back, and which part is degraded.

Never a prompt, never a key: the message of an error is left out, since a replica's own words may
repeat what the caller sent; the reason says the same. Durations are seconds.

A call's line is encoded here and handed over as bytes: the steps that other records take cost more
than ten times as much. It looks like theirs.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime

import msgspec
import structlog

from gateway.core.events import CallEnded, Degraded, Event, ReplicaState, Restored
from gateway.core.priority import label_of
from gateway.core.records import CallRecord

LOGGER = "fairway.call"
state_log = structlog.get_logger("fairway.state")


class CallLine(msgspec.Struct, frozen=True, rename={"klass": "class"}):
    """In the order of its keys."""

    call_id: str
    request_id: str
    tenant: str
    key_id: str
    endpoint: str
    model: str
    pool: str
    klass: str
    stream: bool
    outcome: str
    reason: str
    status: int
    replica: str
    attempts: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    reserved_tokens: int
    estimated: bool
    charge_microcredits: int
    queue_s: float | None
    ttft_s: float | None
    tpot_s: float | None
    e2e_s: float | None
    duration_s: float
    loop_lag_s: float
    retry_after_s: float | None
    retry_count: int
    batch_id: str
    line_no: int | None
    config_version: int
    degraded: bool
    timestamp: datetime
    event: str = "call"
    logger: str = LOGGER
    level: str = "info"


def to_stderr(line: bytes) -> None:
    """One write, so that no other record comes between. A log that takes nothing ends no call:
    there is no other place to say it."""
    with contextlib.suppress(OSError):
        os.write(sys.stderr.fileno(), line)


class CallLog:
    """``write`` gets whole lines."""

    def __init__(self, write: Callable[[bytes], None] = to_stderr) -> None:
        self._write = write
        self._logger = logging.getLogger(LOGGER)
        self._encoder = msgspec.json.Encoder()

    def on_event(self, event: Event) -> None:
        """A sink of the event bus."""
        match event:
            case CallEnded(record=record):
                if self._logger.isEnabledFor(logging.INFO):
                    self._write(self._encoded(line_of(record)) + b"\n")
            case ReplicaState():
                change = {"pool": event.pool, "replica": event.replica, "state": event.state}
                state_log.info("replica", **change, why=event.why)
            case Degraded(part=part, why=why):
                state_log.warning("degraded", part=part, why=why)
            case Restored(part=part):
                state_log.info("restored", part=part)
            case _:
                pass

    def _encoded(self, line: CallLine) -> bytes:
        """ASCII: what turns the writing direction or colours a terminal is escaped, and half a
        character too."""
        with contextlib.suppress(UnicodeEncodeError):
            encoded = self._encoder.encode(line)
            if encoded.isascii():
                return encoded
        return json.dumps(msgspec.to_builtins(line), separators=(",", ":")).encode()


def line_of(record: CallRecord) -> CallLine:
    return CallLine(
        record.call_id,
        record.request_id,
        record.tenant,
        record.key_id,
        record.endpoint,
        record.model,
        record.pool,
        label_of(record.klass),
        record.stream,
        record.outcome,
        record.reason or "",
        record.status,
        record.replica,
        len(record.attempts),
        record.prompt_tokens,
        record.cached_tokens,
        record.completion_tokens,
        record.reserved_tokens,
        record.estimated,
        record.charge_microcredits,
        record.queue_s,
        record.ttft_s,
        record.tpot_s,
        record.e2e_s,
        record.duration_s,
        record.loop_lag_s,
        record.retry_after_s,
        record.retry_count,
        record.batch_id,
        record.line_no,
        record.config_version,
        record.degraded,
        datetime.now(UTC),
    )
