"""One attempt: one try of a call on one replica, from the open connection to the last token.

Reads frames, takes the time when bytes are read, counts what was received, and hands the frames to
the delivery. Two-stage commit: nothing reaches the caller before the first content, so that every
status and every retry stays possible; from then on frames are relayed untouched.

An attempt that returns is complete: a finish reason for every choice and the end marker were seen.
Everything else is an UpstreamError, an Aborted (the caller's own deadline) or a cancellation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

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
from gateway.replicas.supervised_replica import Watch
from gateway.replicas.upstream import AttemptTimeouts, ReplicaTarget, Upstream, UpstreamStream
from gateway.wire.dialect import Dialect, Frame, FrameFacts, Splitter, StreamReader

SLOW_PART = 0.5  # of the time since dispatch
TOLD_EVERY_TOKENS = 16  # to the dispatcher, while a stream runs; its end is exact
LINGER_S = 0.05  # after the end marker, for the clean end of the body that keeps a connection


@dataclass(frozen=True, slots=True)
class AttemptLimits:
    """``first_content_s`` and ``total_s`` count from dispatch. ``deadline_s`` is a moment: it
    bounds the whole answer of a call without a stream, and the first content of one with a
    stream."""

    transport: AttemptTimeouts
    first_content_s: float
    between_tokens_s: float
    total_s: float
    deadline_s: float


@dataclass(frozen=True, slots=True)
class Exchange:
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


@dataclass(slots=True)
class Attempt:
    call: Call
    lease: Lease
    exchange: Exchange
    talk: Conversation
    watch: Watch
    _dispatch_s: float = 0.0
    _end_s: float = 0.0  # however lively it is
    _waited_before_s: float = 0.0
    _covered_tokens: int = 0  # of the answer, by the charge at dispatch
    _told_tokens: int = 0  # to the dispatcher
    _complete: bool = False
    _started: bool = False

    async def run(self, upstream: Upstream) -> None:
        """Returns when the answer is complete; its tail stays in the delivery."""
        order, limits = self.call.placed, self.exchange.limits
        may_be_taken_back = order.route.klass is PriorityClass.BATCH
        self._covered_tokens = 0 if may_be_taken_back else order.count.expected_output
        self._dispatch_s = self.call.clock.now()
        self._end_s = min(self._dispatch_s + limits.total_s, limits.deadline_s)
        self._waited_before_s = self.talk.reply.waited_s
        until_s = min(self._dispatch_s + limits.first_content_s, self._end_s)
        async with Patience(
            self.call.clock.source, until_s, self._impatience, self._caller_is_slow
        ) as patience:
            try:
                await self._read(upstream, patience)
            except CallError:
                if not self._complete:
                    raise

    async def _read(self, upstream: Upstream, patience: Patience) -> None:
        exchange = self.exchange
        async with upstream.stream(
            exchange.target,
            exchange.path,
            exchange.body,
            exchange.headers,
            exchange.limits.transport,
        ) as stream:
            self._accepted(stream)
            async for chunk in stream.chunks():
                if frames := exchange.splitter.feed(chunk):
                    error = self._understand(frames, patience)
                    await self.talk.delivery.flush()
                    self._go_on(error)
            if frames := exchange.splitter.finish():
                error = self._understand(frames, patience)
                await self.talk.delivery.flush()
                self._go_on(error)
        if not exchange.reader.is_complete(needs_done=exchange.adapter.done_marker):
            raise UpstreamError(Reason.UPSTREAM_INCOMPLETE)
        self._complete = True

    def _accepted(self, stream: UpstreamStream) -> None:
        self.call.accepted = True
        self.call.clock.up_headers_s = stream.headers_at_s
        self.call.entry.enter(Phase.ACCEPTED)

    def _go_on(self, error: UpstreamError | None) -> None:
        """Raises what one read's worth of frames means for the attempt, once what came before it
        has been relayed."""
        if error is not None:
            raise error
        if self._caller_is_too_slow():
            raise self._impatience()

    def _understand(self, frames: list[Frame], patience: Patience) -> UpstreamError | None:
        """What one read's worth of frames means, before any of it is relayed. Once per event only
        what differs from event to event, all else once per read. An error ends it."""
        now_s = self.call.clock.now()
        facts_of, take = self.exchange.reader.facts, self.talk.delivery.take
        content = visible = begun = False
        error: UpstreamError | None = None
        for frame in frames:
            facts = facts_of(frame)
            if (error := facts.error) is not None:
                break
            if facts.has_content:
                content = True
                visible = visible or not facts.is_reasoning_only
            if not self.call.has_content or facts.usage is not None or facts.is_done:
                self._observe(facts, now_s)
            begun = begun or not facts.acknowledges
            take(frame, facts)
        if content:
            self.call.clock.content(now_s, visible=visible)
        self._account(begun)
        if self._complete:
            patience.extend(now_s + LINGER_S)
        elif content:
            self.watch.progress(now_s)
            patience.extend(min(now_s + self.exchange.limits.between_tokens_s, self._end_s))
        return error

    def _observe(self, facts: FrameFacts, now_s: float) -> None:
        """What happens a few times in an answer."""
        call = self.call
        call.clock.event(now_s)
        if facts.commits and not call.has_content:
            call.has_content = True
            if self._streams:
                call.entry.enter(Phase.RELAYING)
                self.lease.relayed()
                self._end_s = self._dispatch_s + self.exchange.limits.total_s
        if facts.usage is not None:
            call.usage = self.lease.usage = facts.usage
            call.entry.input_tokens(facts.usage.input_tokens, facts.usage.cached_tokens)
        self._complete = self._complete or facts.is_done

    def _account(self, begun: bool) -> None:
        """Once per read: what was received so far, for the table, the tag and the charge."""
        if begun and not self._started:
            self._started = True
            self.lease.first_event()
        tokens = self.exchange.reader.tokens
        if tokens != self.call.received_tokens:
            self.call.received_tokens = tokens
            self.call.entry.tokens(tokens)
            if tokens > self._covered_tokens and tokens >= self._told_tokens + TOLD_EVERY_TOKENS:
                self._told_tokens = tokens
                self.lease.progress(tokens)

    @property
    def _streams(self) -> bool:
        return self.call.placed.body.stream

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
        if now_s >= limits.deadline_s and not (self.call.has_content and self._streams):
            return Aborted(Reason.DEADLINE, status=REASONS[Reason.DEADLINE].dispatched_status)
        if now_s >= self._dispatch_s + limits.total_s:
            return UpstreamError(Reason.UPSTREAM_TIMEOUT, "The answer took too long in all.")
        if self.call.has_content:
            return UpstreamError(Reason.STREAM_STALLED)
        return UpstreamError(Reason.UPSTREAM_TIMEOUT)
