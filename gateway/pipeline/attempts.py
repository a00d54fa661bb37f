"""How is one grant turned into one attempt: what is sent, who is told, what is written down?

The granted replica is looked up as an object and held for the attempt. Evidence about its health
goes to that object; the charge of the slot is refunded when the caller got nothing for it,
unless it asked for more than the gateway holds.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from dataclasses import dataclass

from gateway.bus import EventBus
from gateway.core.dispatch.effects import Failure, Usage
from gateway.core.errors import CallError, ReplicaFull, ReplicaUnreachable, UpstreamError
from gateway.core.events import AttemptEnded
from gateway.core.reasons import Reason
from gateway.core.records import AttemptRecord
from gateway.pipeline.attempt import Attempt, AttemptLimits, Conversation, Exchange
from gateway.pipeline.call import Call
from gateway.pipeline.flow import Lease
from gateway.replicas.adapters import Adapter, Priority, adapter_of
from gateway.replicas.fleet import Fleet, UnknownReplica
from gateway.replicas.supervised_replica import SupervisedReplica
from gateway.replicas.upstream import AttemptTimeouts, Upstream
from gateway.wire.answers.whole_body import AnswerOutgrown
from gateway.wire.dialect import Rewrite
from gateway.wire.errors import excerpt_for_operators
from gateway.wire.headers import to_replica

MOST_SALTS = 4_096  # that are remembered
FIRST_CONTENT_S = (30.0, 60.0, 300.0)  # by class


@dataclass(frozen=True, slots=True)
class AttemptSettings:
    """Seconds. ``first_content_s`` counts from dispatch, by class."""

    connect_s: float
    between_tokens_s: float
    total_s: float
    first_content_s: tuple[float, float, float] = FIRST_CONTENT_S


class Attempts:
    """``salt_secret`` keys the cache salt, so that no tenant can guess another's."""

    def __init__(
        self,
        upstream: Upstream,
        fleet: Fleet,
        bus: EventBus,
        settings: AttemptSettings,
        salt_secret: bytes,
    ) -> None:
        self._upstream = upstream
        self._fleet = fleet
        self._bus = bus
        self._limits = tuple(_limits(settings, each) for each in settings.first_content_s)
        self._salt_secret = salt_secret
        self._salts: dict[tuple[str, str], str] = {}

    async def run(self, call: Call, lease: Lease, talk: Conversation) -> UpstreamError | None:
        """One attempt under ``lease``. Returns the replica's failure; all else is raised."""
        call.begin_attempt(lease.grant)
        reason: Reason | None = Reason.CLIENT_GONE  # a cancellation says nothing of itself
        said = ""
        try:
            await self._attempted(call, lease, talk)
            reason = None
        except asyncio.CancelledError:
            reason = Reason.PREEMPTED if lease.preempted else reason
            raise
        except UpstreamError as failure:
            reason, said = failure.reason, excerpt_for_operators(failure.upstream_body or b"")
            given_up = call.has_content and not failure.retryable
            call.outgrew = given_up or isinstance(failure, AnswerOutgrown)
            lease.refund = not (call.relayed or call.outgrew)
            lease.failure = _blame(failure)
            return failure
        except CallError as error:
            reason = error.reason
            raise
        finally:
            self._write_down(call, _record(call, lease, reason, said))
            if call.accepted and lease.usage is None and not lease.refund:
                count = call.placed.count.size
                cached = call.predicted_cached_tokens
                lease.usage = Usage(count.input_tokens, cached, call.received_tokens)
        return None

    async def _attempted(self, call: Call, lease: Lease, talk: Conversation) -> None:
        replica, tenant = self._replica(call), call.placed.principal.tenant.slug
        with replica.watch(tenant, lambda: talk.reply.blocked) as watch:
            talk.watches.append(watch)
            exchange = self._exchange(call, replica, talk)
            await Attempt(call, lease, exchange, talk, watch).run(self._upstream)
        for earlier in talk.watches:
            earlier.outdone()

    def _replica(self, call: Call) -> SupervisedReplica:
        try:
            return self._fleet.replica(call.placed.route.pool.slug, call.replica)
        except UnknownReplica as gone:
            raise ReplicaUnreachable(
                Reason.UPSTREAM_ERROR, "The replica was removed.", blames_replica=False
            ) from gone

    def _exchange(self, call: Call, replica: SupervisedReplica, talk: Conversation) -> Exchange:
        order = call.placed
        adapter = adapter_of(replica.target.kind)
        rewrite = self._rewrite(call, adapter)
        return Exchange(
            target=replica.target,
            adapter=adapter,
            path=f"/v1/{call.endpoint}",
            body=talk.dialect.upstream_body(order.body, rewrite),
            headers=to_replica(talk.caller_headers, call.call_id, talk.dialect.accept),
            limits=self._limits[order.route.klass],
            splitter=talk.dialect.splitter(),
            reader=talk.dialect.reader(order.body, rewrite),
        )

    def _rewrite(self, call: Call, adapter: Adapter) -> Rewrite:
        order = call.placed
        tenant, model = order.principal.tenant.slug, order.route.upstream_model
        rank = int(order.route.klass)
        priorities = {Priority.LOWER_FIRST: rank, Priority.HIGHER_FIRST: -rank}
        context_tokens = order.route.pool.context_tokens
        room = context_tokens - order.count.size.input_tokens if context_tokens else None
        return Rewrite(
            upstream_model=model,
            cache_salt=self._salt(tenant, model) if adapter.cache_salt else None,
            priority=priorities.get(adapter.priority),
            max_tokens_if_absent=max(1, room) if room and adapter.needs_max_tokens else None,
            extras=adapter.body_extras,
        )

    def _salt(self, tenant: str, model: str) -> str:
        """Length-prefixed, so that no two pairs frame alike."""
        salt = self._salts.get((tenant, model))
        if salt is None:
            text = f"{len(model)}:{model}{len(tenant)}:{tenant}".encode()
            salt = hmac.new(self._salt_secret, text, hashlib.sha256).hexdigest()[:32]
            if len(self._salts) >= MOST_SALTS:
                self._salts.clear()
            self._salts[tenant, model] = salt
        return salt

    def _write_down(self, call: Call, record: AttemptRecord) -> None:
        call.attempts.append(record)
        order = call.placed
        tenant, pool = order.principal.tenant.slug, order.route.pool.slug
        self._bus.publish(AttemptEnded(call.call_id, tenant, pool, record))


def _limits(settings: AttemptSettings, first_content_s: float) -> AttemptLimits:
    """Of the calls of one class."""
    between_tokens_s = settings.between_tokens_s
    idle_s = max(first_content_s, between_tokens_s)
    transport = AttemptTimeouts(settings.connect_s, first_content_s, idle_s)
    return AttemptLimits(transport, first_content_s, between_tokens_s, settings.total_s)


def _blame(failure: UpstreamError) -> Failure | None:
    if isinstance(failure, ReplicaFull):
        return Failure.FULL
    return Failure.ERROR if failure.blames_replica else None


def _record(call: Call, lease: Lease, reason: Reason | None, said: str) -> AttemptRecord:
    clock = call.clock
    assert clock.dispatch_s is not None
    return AttemptRecord(
        number=len(call.attempts) + 1,
        replica=call.replica,
        dispatched_s=clock.dispatch_s - clock.arrive_s,
        ended_s=clock.now() - clock.arrive_s,
        queue_s=lease.grant.queued_s,
        reason=reason,
        headers_s=clock.since_arrival(clock.up_headers_s),
        first_event_s=clock.since_arrival(clock.first_event_s),
        first_token_s=clock.ttft_s,
        received_tokens=call.received_tokens,
        rule=lease.grant.rule,
        said=said,
    )
