"""What is kept of a call after its end: the row of the ledger and the event that everyone receives.

Durations are seconds on the monotonic clock, absent (None) when the moment never came, never 0.
"""

from __future__ import annotations

import msgspec

from gateway.core.priority import PriorityClass
from gateway.core.reasons import Outcome, Reason
from gateway.core.routing.decision import Decision


class AttemptRecord(msgspec.Struct, frozen=True):
    """One try of a call on one replica. Offsets are seconds since the call's arrival."""

    number: int
    replica: str
    dispatched_s: float
    ended_s: float
    queue_s: float
    reason: Reason | None = None
    headers_s: float | None = None
    first_event_s: float | None = None
    first_token_s: float | None = None
    received_tokens: int = 0
    rule: str = ""
    said: str = ""  # an excerpt of what the replica said of its error, for operators


class CallStory(msgspec.Struct, frozen=True):
    """Why a call went where it went: one decision per attempt, none for a call that was refused."""

    decisions: tuple[Decision, ...] = ()


class CallRecord(msgspec.Struct, frozen=True):
    """One row of the ledger, idempotent by ``call_id``."""

    call_id: str
    arrived_at: float  # Unix epoch, UTC
    tenant: str
    key_id: str
    endpoint: str
    model: str
    pool: str
    klass: PriorityClass | None  # None: refused before it was known
    stream: bool
    outcome: Outcome
    reason: Reason | None
    status: int
    replica: str = ""
    request_id: str = ""
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    received_tokens: int = 0
    reserved_tokens: int = 0
    estimated: bool = False  # the counts are ours, the replica reported none
    charge_microcredits: int = 0
    service_cost: float = 0.0
    queue_s: float | None = None
    ttft_s: float | None = None
    first_visible_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None
    duration_s: float = 0.0
    loop_lag_s: float = 0.0
    retry_after_s: float | None = None
    message: str = ""  # the words of the refusal or error, as the caller got them
    retry_count: int = 0  # the client's own, from x-stainless-retry-count
    client: str = ""
    batch_id: str = ""
    line_no: int | None = None
    config_version: int = 0
    degraded: bool = False
    attempts: tuple[AttemptRecord, ...] = ()
    predicted_cached_tokens: int = 0  # of the prompt, on the replica that it ran on
    story: CallStory | None = None  # None: not kept
