"""One attempt: one try of a call on one replica, from the open connection to the last token.

Reads frames, takes the time when bytes are read, counts what was received, and hands the frames to
the delivery. Two-stage commit: nothing reaches the caller before the first content, so that every
status and every retry stays possible; from then on frames are relayed untouched.

An attempt that returns is complete: a finish reason for every choice and the end marker were seen.
Everything else is an UpstreamError, an Aborted (the caller's own deadline) or a cancellation.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field

from gateway.active_calls import Phase
from gateway.core.dispatch.effects import Usage
from gateway.core.errors import Aborted, CallError, UpstreamError
from gateway.core.priority import PriorityClass
from gateway.core.reasons import REASONS, Reason
from gateway.pipeline.call import Call
from gateway.pipeline.delivery import Delivery
from gateway.pipeline.flow import Lease
from gateway.pipeline.patience import Patience
from gateway.pipeline.reply import Reply
from gateway.replicas.adapters import Adapter, StartedAt
from gateway.replicas.supervised_replica import Watch
from gateway.replicas.upstream import AttemptTimeouts, ReplicaTarget, Upstream, UpstreamStream
from gateway.wire.dialect import Dialect, Frame, FrameFacts, Splitter, StreamReader

SLOW_PART = 0.5  # of the time since dispatch
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
    _waited_before_s: float = 0.0
    _reported_tokens: int = 0
    _complete: bool = False
    _started: bool = False

    async def run(self, upstream: Upstream) -> None:
        """Returns when the answer is complete; its tail stays in the delivery."""
        self._dispatch_s = self.call.clock.now()
        self._waited_before_s = self.talk.reply.waited_s
        until_s = min(self._dispatch_s + self.exchange.limits.first_content_s, self._end_s())
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
            async for frames in self._frames(stream):
                await self._take(frames, patience)
        if not exchange.reader.is_complete(needs_done=exchange.adapter.done_marker):
            raise UpstreamError(Reason.UPSTREAM_INCOMPLETE)
        self._complete = True

    def _accepted(self, stream: UpstreamStream) -> None:
        self.call.accepted = True
        self.call.clock.up_headers_s = stream.headers_at_s
        self.call.entry.enter(Phase.ACCEPTED)
        if self.exchange.adapter.started_at is StartedAt.HEADERS:
            self._has_started()

    async def _frames(self, stream: UpstreamStream) -> AsyncIterator[list[Frame]]:
        async for chunk in stream.chunks():
            if frames := self.exchange.splitter.feed(chunk):
                yield frames
        if frames := self.exchange.splitter.finish():
            yield frames

    async def _take(self, frames: list[Frame], patience: Patience) -> None:
        """One read's worth of frames: what they mean first, then what the caller gets. An error
        among them is raised after what came before it has been relayed."""
        now_s = self.call.clock.now()
        content = begun = False
        error: UpstreamError | None = None
        for frame in frames:
            facts = self.exchange.reader.facts(frame)
            if (error := facts.error) is not None:
                break
            self._observe(facts, now_s)
            content = content or facts.has_content
            begun = begun or not facts.acknowledges
            self.talk.delivery.take(frame, facts)
        self._account(begun)
        if self._complete:
            patience.extend(now_s + LINGER_S)
        elif content:
            self.watch.progress()
            patience.extend(min(now_s + self.exchange.limits.between_tokens_s, self._end_s()))
        await self.talk.delivery.flush()
        if error is not None:
            raise error
        if self._caller_is_too_slow():
            raise self._impatience()

    def _observe(self, facts: FrameFacts, now_s: float) -> None:
        call = self.call
        call.clock.event(now_s)
        if facts.has_content:
            call.clock.content(now_s, visible=not facts.is_reasoning_only)
        if facts.commits and not call.has_content:
            call.has_content = True
            if self._streams:
                call.entry.enter(Phase.RELAYING)
                self.lease.relayed()
        if facts.usage is not None:
            self._usage(facts.usage)
        self._complete = self._complete or facts.is_done

    def _usage(self, usage: Usage) -> None:
        self.call.usage = self.lease.usage = usage
        self.call.entry.input_tokens(usage.input_tokens, usage.cached_tokens)

    def _account(self, begun: bool) -> None:
        """Once per read: what was received so far, for the table, the tag and the charge."""
        if begun and not self._started:
            self._has_started()
        tokens = self.exchange.reader.tokens
        if tokens != self._reported_tokens:
            self._reported_tokens = self.call.received_tokens = tokens
            self.call.entry.tokens(tokens)
            order = self.call.placed
            may_be_taken_back = order.route.klass is PriorityClass.BATCH
            if tokens > order.count.expected_output or may_be_taken_back:
                self.lease.progress(tokens)  # of others the charge covers it until then

    def _has_started(self) -> None:
        self._started = True
        self.lease.first_event()

    def _end_s(self) -> float:
        """The moment at which the attempt ends, however lively it is."""
        limits = self.exchange.limits
        total_s = self._dispatch_s + limits.total_s
        relaying = self.call.has_content and self._streams
        return total_s if relaying else min(total_s, limits.deadline_s)

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
