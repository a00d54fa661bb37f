"""What the pipeline knows of one call, filled step by step from arrival to record.

One owner: the task that runs the call. Everything here is plain data; decisions live in the steps.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field

import msgspec

from gateway.active_calls.table import ActiveCall
from gateway.auth import Principal
from gateway.core.caches.prefix_chain import NO_PREFIX, PrefixChain
from gateway.core.dispatch.effects import Grant, Usage
from gateway.core.errors import CallError, Interrupted
from gateway.core.limits.demands import Reservation
from gateway.core.reasons import Outcome, Reason
from gateway.core.records import AttemptRecord
from gateway.core.routing.decision import Decision
from gateway.pipeline.call_clock import CallClock
from gateway.pipeline.classify import Route
from gateway.pipeline.counting import Count
from gateway.wire.api_styles import OPENAI, ApiStyle
from gateway.wire.dialect import ParsedBody
from gateway.wire.request_hints import RequestHints


def new_call_id() -> str:
    """UUID version 7 (RFC 9562): sortable by the millisecond of its making, 74 random bits."""
    value = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10), "big")
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    digits = f"{value:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


class Order(msgspec.Struct, frozen=True):
    """What must be known of a call before it can be admitted."""

    principal: Principal
    body: ParsedBody
    hints: RequestHints
    route: Route
    count: Count
    eligible: frozenset[str] | None = None  # replica slugs; None = every replica of the pool
    prefix: PrefixChain = NO_PREFIX
    prompt_hash: int = 0  # this and the next as in ``prompt_identity``
    conversation: int = 0


@dataclass(slots=True)
class Call:
    call_id: str
    endpoint: str
    clock: CallClock
    arrived_at: float  # Unix epoch
    request_id: str
    style: ApiStyle = OPENAI
    loop_lag_s: float = 0.0
    config_version: int = 0
    principal: Principal | None = None
    body: ParsedBody | None = None
    order: Order | None = None
    reservation: Reservation | None = None
    active: ActiveCall | None = None
    replica: str = ""
    queued_s: float | None = None
    accepted: bool = False  # the replica answered 2xx: its prompt was taken
    has_content: bool = False
    received_tokens: int = 0
    outgrew: bool = False  # its answer was larger than the gateway holds
    next_event: int = 0  # number that the caller's next event has, where the API numbers them
    usage: Usage | None = None  # as the replica reported
    attempts: list[AttemptRecord] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)  # one per attempt
    outcome: Outcome | None = None
    reason: Reason | None = None
    status: int = 0
    message: str = ""
    retry_after_s: float | None = None

    @property
    def placed(self) -> Order:
        """The order of a call that has come as far as admission."""
        assert self.order is not None
        return self.order

    @property
    def entry(self) -> ActiveCall:
        """The entry of an admitted call in the table of active calls."""
        assert self.active is not None
        return self.active

    @property
    def deadline_s(self) -> float:
        """A moment on the monotonic clock."""
        return self.clock.arrive_s + self.placed.route.deadline_s

    @property
    def relayed(self) -> bool:
        """The caller has received content: no retry any more."""
        return self.has_content and self.body is not None and self.body.stream

    @property
    def predicted_cached_tokens(self) -> int:
        """Of the prompt, on the replica that runs it now or ran it last."""
        return self.decisions[-1].predicted_cached_tokens if self.decisions else 0

    def begin_attempt(self, grant: Grant) -> None:
        self.clock.dispatched(self.clock.now())
        self.replica = grant.replica
        self.queued_s = grant.queued_s
        if grant.decision is not None:
            self.decisions.append(grant.decision)
        self.forget_attempt()
        self.entry.dispatched(grant.replica)

    def forget_attempt(self) -> None:
        """What an attempt received was never relayed and counts for nobody."""
        self.accepted = self.has_content = False
        self.received_tokens = 0
        self.usage = None

    def completed(self) -> None:
        self.outcome, self.status = Outcome.COMPLETED, 200

    def broke_off(self) -> None:
        """It is over. Without a word of how, the fault is ours."""
        if self.outcome is None:
            self.ended_by(CallError(Reason.INTERNAL))

    def ended_by(self, error: CallError) -> None:
        self.outcome = self._outcome_of(error)
        self.reason = error.reason
        self.status = self.style.status(error)
        self.message = error.message
        self.retry_after_s = error.retry_after_s

    def charged_usage(self) -> Usage | None:
        """What the caller owes: reported usage, else what was received from the replica until it
        was closed; nothing for a call that was never begun or failed before its caller got
        content, unless it asked for more than is held."""
        if self.outcome is Outcome.FAILED and not (self.relayed or self.outgrew):
            return None
        if self.usage is not None:
            return self.usage
        if not self.accepted:
            return None
        tokens, cached = self.placed.count.size.input_tokens, self.predicted_cached_tokens
        return Usage(tokens, min(cached, tokens), self.received_tokens)

    def priced(self, usage: Usage) -> Usage:
        """``usage`` with as much cached input as the best replica of the pool was expected to hold:
        what a caller pays does not depend on where we routed it."""
        best = self.decisions[-1].best_cached_tokens if self.decisions else 0
        cached = min(max(usage.cached_tokens, best), usage.input_tokens)
        return Usage(usage.input_tokens, cached, usage.output_tokens)

    def _outcome_of(self, error: CallError) -> Outcome:
        if isinstance(error, Interrupted):
            return self._interrupted()
        if error.reason is Reason.INTERNAL and self.clock.dispatch_s is not None:
            return Outcome.FAILED
        return error.outcome

    def _interrupted(self) -> Outcome:
        if self.clock.dispatch_s is not None:
            return Outcome.ABORTED
        return Outcome.REJECTED if self.reservation is None else Outcome.EVICTED
