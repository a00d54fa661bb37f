"""One attempt: one try of a call on one replica, from the open connection to the last token.

What is read is taken in the moment in which it comes, without a wake-up of the call's task: the
time is taken, what was received is counted, and it is handed to the caller where that needs no
waiting. The task goes on when the caller has to be waited for, and at the end. Two-stage commit:
nothing reaches the caller before the first content, so that every status and every retry stays
possible; from then on frames are relayed untouched.

Most reads are one event that is the last one but for its text: it is counted and relayed, and
nothing else is done for it (``StreamReader.repeats``).

An attempt that returns is complete: a finish reason for every choice and the end marker were seen.
Everything else is an UpstreamError, an Aborted (the caller's own deadline) or a cancellation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from gateway.active_calls import Phase
from gateway.core.errors import Aborted, CallError, UpstreamError
from gateway.core.priority import PriorityClass
from gateway.core.reasons import REASONS, Reason
from gateway.pipeline.call import Call
from gateway.pipeline.delivery import Delivery
from gateway.pipeline.flow import Lease
from gateway.pipeline.patience import Patience
from gateway.pipeline.reply import Reply
from gateway.replicas.adapters import Adapter
from gateway.replicas.supervised_replica import PROGRESS_S, Watch
from gateway.replicas.upstream import AttemptTimeouts, ReplicaTarget, Upstream, UpstreamStream
from gateway.wire.dialect import Dialect, Frame, FrameFacts, Splitter, StreamReader

SLOW_PART = 0.5  # of the time since dispatch
TOLD_EVERY_TOKENS = 16  # to the dispatcher, while a stream runs; its end is exact
LINGER_S = 0.05  # after the end marker, for the clean end of the body that keeps a connection


@dataclass(frozen=True, slots=True)
class AttemptLimits:
    """``first_content_s`` and ``total_s`` count from dispatch."""

    transport: AttemptTimeouts
    first_content_s: float
    between_tokens_s: float
    total_s: float


class Exchange(msgspec.Struct, frozen=True, gc=False):
    """What one attempt sends, where to, and who reads the answer."""

    target: ReplicaTarget
    adapter: Adapter
    path: str
    body: bytes
    headers: Mapping[str, str]
    limits: AttemptLimits
    splitter: Splitter
    reader: StreamReader


@dataclass(frozen=True, slots=True)
class Conversation:
    """The two ends of one call between which attempts carry bytes."""

    dialect: Dialect
    caller_headers: Mapping[str, str]  # as received
    delivery: Delivery
    reply: Reply
    watches: list[Watch] = field(default_factory=list)  # one per attempt


class Attempt:
    """``call.deadline_s`` bounds the whole answer of a call without a stream, and the first content
    of one with a stream."""

    __slots__ = (
        "_complete",
        "_covered_tokens",
        "_dispatch_s",
        "_end_s",
        "_entry",
        "_failure",
        "_linger_s",
        "_patience",
        "_progress_s",
        "_started",
        "_told_tokens",
        "_waited_before_s",
        "call",
        "exchange",
        "lease",
        "talk",
        "watch",
    )

    def __init__(
        self, call: Call, lease: Lease, exchange: Exchange, talk: Conversation, watch: Watch
    ) -> None:
        order = call.placed
        self.call = call
        self.lease = lease
        self.exchange = exchange
        self.talk = talk
        self.watch = watch
        self._entry = call.entry
        self._dispatch_s = call.clock.now()
        self._end_s = min(self._dispatch_s + exchange.limits.total_s, call.deadline_s)
        self._waited_before_s = talk.reply.waited_s
        may_be_taken_back = order.route.klass is PriorityClass.BATCH
        self._covered_tokens = 0 if may_be_taken_back else order.count.expected_output
        self._told_tokens = 0  # to the dispatcher
        self._progress_s = float("-inf")  # when content was last told to the watch
        self._linger_s = 0.0  # the moment of the end marker
        self._failure: UpstreamError | None = None  # what a read meant, to be raised by the task
        self._complete = self._started = False
        self._patience = Patience(
            call.clock.now, self._patient_until_s, self._impatience, self._caller_is_slow
        )

    async def run(self, upstream: Upstream) -> None:
        """Returns when the answer is complete, however its connection ends then; its tail stays in
        the delivery."""
        try:
            with self._patience:
                await self._read(upstream)
        except CallError:
            if not self._complete:
                raise

    async def _read(self, upstream: Upstream) -> None:
        exchange = self.exchange
        async with upstream.stream(
            exchange.target,
            exchange.path,
            exchange.body,
            exchange.headers,
            exchange.limits.transport,
        ) as stream:
            self._accepted(stream)
            while await stream.relay(self._take):
                await self._catch_up()
            if frames := exchange.splitter.finish():
                self._understand(frames, self.call.clock.now())
                await self._catch_up()
        if not exchange.reader.is_complete(needs_done=exchange.adapter.done_marker):
            raise UpstreamError(Reason.UPSTREAM_INCOMPLETE)
        self._complete = True

    def _take(self, read: bytes) -> bool:
        """False: the task has to go on."""
        exchange, delivery = self.exchange, self.talk.delivery
        now_s = self.call.clock.now()
        try:
            if not exchange.splitter.pending and (texts := exchange.reader.repeats((read,))):
                delivery.repeat((read,), texts)
                self._account(now_s, content=True)
            else:
                self._understand(exchange.splitter.feed(read), now_s)
        except UpstreamError as error:
            self._failure = error
        return self._failure is None and delivery.relay(now_s)

    async def _catch_up(self) -> None:
        """What is left to do after a read: waits for the caller, then raises what the read meant
        for the attempt, once what came before it has been relayed."""
        if (waits := self.talk.delivery.flush()) is not None:
            await waits
        if self._failure is not None:
            raise self._failure
        if self._caller_is_too_slow():
            raise self._impatience()

    def _accepted(self, stream: UpstreamStream) -> None:
        self.call.accepted = True
        self.call.clock.up_headers_s = stream.headers_at_s
        self._entry.enter(Phase.ACCEPTED)

    def _understand(self, frames: list[Frame], now_s: float) -> None:
        """What one read's worth of frames means, before any of it is relayed. An error ends it."""
        reader, delivery = self.exchange.reader, self.talk.delivery
        events = [frame.raw for frame in frames]
        number = 0
        content = visible = begun = False
        while number < len(frames) and self._failure is None:
            if texts := reader.repeats(events, number):
                delivery.repeat(events[number : number + len(texts)], texts)
                number += len(texts)
                content = True
                continue
            facts = reader.facts(frames[number])
            if (error := facts.error) is not None:
                self._failure = error
                break
            content = content or facts.has_content
            visible = visible or (facts.has_content and not facts.is_reasoning_only)
            begun = begun or not facts.acknowledges
            self._observe(facts, now_s)
            delivery.take(frames[number], facts)
            number += 1
        if begun and not self._started:
            self._started = True
            self.lease.first_event()
        begins = content and self.call.clock.last_s is None
        if content:
            self.call.clock.content(now_s, visible=visible)
        if begins or self._complete:
            self._patience.lessened()
        self._account(now_s, content=content)

    def _observe(self, facts: FrameFacts, now_s: float) -> None:
        """What happens a few times in an answer."""
        call = self.call
        if call.has_content and facts.usage is None and not facts.is_done:
            return
        call.clock.event(now_s)
        if facts.commits and not call.has_content:
            call.has_content = True
            if self._streams:
                self._entry.enter(Phase.RELAYING)
                self.lease.relayed()
                self._end_s = self._dispatch_s + self.exchange.limits.total_s
        if facts.usage is not None:
            call.usage = self.lease.usage = facts.usage
            self._entry.input_tokens(facts.usage.input_tokens, facts.usage.cached_tokens)
        if facts.is_done:
            self._complete, self._linger_s = True, now_s

    def _account(self, now_s: float, *, content: bool) -> None:
        """Once per read: for the limits of time, the replica, the table and the charge."""
        call, tokens = self.call, self.exchange.reader.tokens
        if content:
            call.clock.last_s = now_s
            if now_s >= self._progress_s + PROGRESS_S:
                self._progress_s = now_s
                self.watch.progress(now_s)
        if tokens == call.received_tokens:
            return
        call.received_tokens = tokens
        self._entry.tokens(tokens)
        if tokens > self._covered_tokens and tokens >= self._told_tokens + TOLD_EVERY_TOKENS:
            self._told_tokens = tokens
            self.lease.progress(tokens)

    @property
    def _streams(self) -> bool:
        return self.call.placed.body.stream

    def _patient_until_s(self) -> float:
        """As things are now."""
        if self._complete:
            return self._linger_s + LINGER_S
        limits, last_s = self.exchange.limits, self.call.clock.last_s
        if last_s is None:
            return min(self._dispatch_s + limits.first_content_s, self._end_s)
        return min(last_s + limits.between_tokens_s, self._end_s)

    def _caller_is_slow(self) -> bool:
        return self.talk.reply.blocked and not self._caller_is_too_slow()

    def _caller_is_too_slow(self) -> bool:
        """It holds a slot for longer than it is used: most of the time went into waiting for it to
        read, and as much as a replica may be silent."""
        waited_s = self.talk.reply.waited_s - self._waited_before_s
        if waited_s < self.exchange.limits.between_tokens_s:
            return False
        return waited_s > SLOW_PART * (self.call.clock.now() - self._dispatch_s)

    def _impatience(self) -> CallError:
        """Which limit passed? Asked when one has."""
        limits = self.exchange.limits
        now_s = self.call.clock.now()
        if self._caller_is_too_slow():
            return Aborted(Reason.CLIENT_GONE, "The caller read too slowly.")
        if now_s >= self.call.deadline_s and not (self.call.has_content and self._streams):
            return Aborted(Reason.DEADLINE, status=REASONS[Reason.DEADLINE].dispatched_status)
        if now_s >= self._dispatch_s + limits.total_s:
            return UpstreamError(Reason.UPSTREAM_TIMEOUT, "The answer took too long in all.")
        if self.call.has_content:
            return UpstreamError(Reason.STREAM_STALLED)
        return UpstreamError(Reason.UPSTREAM_TIMEOUT)
