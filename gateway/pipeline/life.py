"""The life of a call, told top to bottom.

 1 authenticate   key -> principal, from the in-memory snapshot            401 403
 2 classify       alias -> pool, class, deadline, size of the body         400 403 404 413 503
 3 count          prompt and expected output tokens                        400
 4 admit          reserve in every bucket that applies, atomically         429 503
 5, 6             result cache and coalescing do not exist yet
 7 grant          enqueue, schedule, route; the replica is chosen last     429 503
 8 attempt        stream; retry elsewhere while nothing was relayed        502 504
 9 settle         actual usage, refund or debt
10 record         one ledger row, one event, one log line; the estimators learn

Steps 4 and 7 are context managers: leaving early *is* settling and releasing, so a client that
disconnects at any line needs no code of its own, and each slot, reservation and queue entry is
given back exactly once. The end of an answer, and every error, are told after that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from gateway.auth import Authenticator, check_permitted
from gateway.bus import EventBus
from gateway.core.errors import CallError, Evicted, Preempted, UpstreamError
from gateway.core.events import CallEnded
from gateway.core.reasons import Reason
from gateway.core.stages import Stages
from gateway.pipeline.admission import Admission
from gateway.pipeline.attempt import Conversation
from gateway.pipeline.attempts import Attempts
from gateway.pipeline.call import Call, Order
from gateway.pipeline.call_record import record_of
from gateway.pipeline.classify import Asked, classify
from gateway.pipeline.counting import Counter
from gateway.pipeline.delivery import Delivery, delivery_of
from gateway.pipeline.flows import Flows, preempted, ticket_of
from gateway.pipeline.incoming import OFF_LOOP_BYTES, Incoming
from gateway.pipeline.keepalive import KeepAlive
from gateway.pipeline.prefixes import placed
from gateway.pipeline.reply import Reply
from gateway.pipeline.retries import Retries
from gateway.pipeline.running import RunningCalls
from gateway.pipeline.telling import answer_headers, tell
from gateway.snapshot.values import Snapshot
from gateway.wire.request_hints import request_hints

INFERENCE = "inference"


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The collaborators of a call; ``runtime`` builds them. Seconds."""

    snapshot: Callable[[], Snapshot]
    authenticator: Authenticator
    counter: Counter
    admission: Admission
    flows: Flows
    attempts: Attempts
    retries: Retries
    running: RunningCalls
    memory: Stages
    loop: Stages
    bus: EventBus
    body_timeout_s: float
    keep_alive_s: float

    async def serve(self, call: Call, incoming: Incoming, reply: Reply) -> None:
        """Answers one call and records it, whatever happens."""
        try:
            delivery = await self._run(call, incoming, reply)
            await delivery.finish()
        except CallError as error:
            call.ended_by(error)
            await tell(error, call, incoming.dialect, reply)
        finally:
            call.broke_off()
            call.clock.end_s = call.clock.now()
            self.bus.publish(CallEnded(record_of(call)))  # 10
            self.counter.learn(call)  # last: what it learns may fail, the record may not

    async def _run(self, call: Call, incoming: Incoming, reply: Reply) -> Delivery:
        call.order = await self.ordered(call, incoming, endpoint=call.endpoint)
        async with self.admission.admitted(call):  # 4, and 9 when it is left
            with self.running.entered(call) as interruption, incoming.watched(interruption):
                return await self._answer(call, incoming, reply)

    async def ordered(self, call: Call, incoming: Incoming, *, endpoint: str) -> Order:
        """Steps 1 to 3. ``endpoint``: the one that the pool must serve."""
        snapshot = self.snapshot()
        call.config_version = snapshot.version
        call.principal = self.authenticator.identified(  # 1; a refusal below has its owner
            incoming.headers, snapshot, peer=incoming.peer
        )
        check_permitted(call.principal, scope=INFERENCE, peer=incoming.peer)
        self.memory.check_all()
        call.body = await incoming.parsed_body(
            most_bytes=snapshot.most_body_bytes, timeout_s=self.body_timeout_s
        )
        call.clock.body_s = call.clock.now()
        hints = request_hints(incoming.headers, call.body.service_tier)
        asked = Asked(endpoint, call.body, hints)
        route = classify(call.principal, asked, snapshot, self.flows.serves)  # 2
        self.memory.check(route.klass)
        self.loop.check(route.klass)
        count = self.counter.count(  # 3
            route.pool.slug, call.principal.tenant.slug, call.body
        )
        order = Order(call.principal, call.body, hints, route, count)
        if call.body.size_bytes > OFF_LOOP_BYTES:
            return await asyncio.to_thread(placed, order, endpoint)
        return placed(order, endpoint)

    async def _answer(self, call: Call, incoming: Incoming, reply: Reply) -> Delivery:
        """Returns once a replica has given the whole answer."""
        delivery = delivery_of(call, incoming.dialect, reply)
        talk = Conversation(incoming.dialect, incoming.headers, delivery, reply)
        flow, ticket = self.flows.of(call), ticket_of(call)
        failure: UpstreamError | None = None
        self.retries.began(call.placed.route.pool.slug)
        async with KeepAlive(call, reply, lambda: answer_headers(call), self.keep_alive_s) as alive:
            while True:
                try:
                    async with flow.grant(ticket) as lease:  # 7
                        alive.dispatched()
                        failure = await self.attempts.run(call, lease, talk)  # 8
                except Evicted as eviction:
                    raise _told_instead(eviction, failure) from eviction
                except Preempted:
                    call.forget_attempt()
                    ticket = preempted(ticket)
                else:
                    if failure is None:
                        return delivery
                    ticket = self.retries.again(ticket, call, failure)
                delivery.restart()


def _told_instead(eviction: Evicted, failure: UpstreamError | None) -> CallError:
    """Without another replica to try, what the last one did is the answer."""
    return failure if failure and eviction.reason is Reason.NO_REPLICA else eviction
