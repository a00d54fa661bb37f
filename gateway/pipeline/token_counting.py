"""How many tokens would this prompt have? ``messages/count_tokens`` and ``responses/input_tokens``,
answered by a replica of the pool that counts, else by the gateway's own estimate.

A replica counts exactly, with its model's template, and without a slot, so nothing is queued and no
slot is taken. Where none can, or none answers in time, the answer is what admission would reserve
on: the prompt's bytes divided by what this organization's prompts have yielded on the pool. The
header ``x-fairway-replica`` names the replica that counted; it is absent from an estimate. So many
callers at once that replicas would have to queue them get estimates too.

It costs one request of the limits on requests per minute and no tokens: no other limit is asked.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec

from gateway.core.errors import CallError, UpstreamError
from gateway.core.events import CallEnded
from gateway.core.limits.demands import Demand, QuotaStore
from gateway.core.limits.limit import Limit
from gateway.core.limits.plan import Payer, Place, demands_for
from gateway.pipeline.admission import reserve
from gateway.pipeline.call import Call, Order
from gateway.pipeline.call_record import record_of
from gateway.pipeline.caller import done
from gateway.pipeline.incoming import Incoming
from gateway.pipeline.life import Pipeline
from gateway.pipeline.reply import Reply
from gateway.pipeline.telling import answer_headers, tell
from gateway.replicas.adapters import adapter_of
from gateway.replicas.fleet import Fleet, UnknownReplica
from gateway.replicas.upstream import PlainAnswer, ReplicaTarget
from gateway.replicas.upstream_errors import RELAYED, error_for_status

COUNTED: Final = {  # the endpoint that a pool must serve
    "messages/count_tokens": "messages",
    "responses/input_tokens": "responses",
}
REQUESTS = "rpm"
ANSWER_S = 3.0
MOST_ASKED = 2  # replicas, one after the other
MOST_AT_ONCE = 32  # questions to replicas, in this process
MOST_BYTES = 64 * 1024
_WRONG = RELAYED - {404}  # the request itself; a replica that lacks the path answers 404


class Asker(Protocol):
    """What of ``HttpUpstream`` is used here. Raises UpstreamError."""

    async def post(
        self, target: ReplicaTarget, path: str, body: bytes, *, timeout_s: float, max_bytes: int
    ) -> PlainAnswer: ...


class Counted(msgspec.Struct):
    """A replica's answer."""

    input_tokens: int


def _answer(endpoint: str, tokens: int) -> bytes:
    if COUNTED[endpoint] == "messages":
        return msgspec.json.encode(Counted(tokens))
    return msgspec.json.encode({"object": "response.input_tokens", "input_tokens": tokens})


@dataclass(slots=True)
class TokenCounting:
    pipeline: Pipeline
    store: QuotaStore
    fleet: Fleet
    asker: Asker
    rng: random.Random
    _asking: int = 0

    async def serve(self, call: Call, incoming: Incoming, reply: Reply) -> None:
        """Answers one call and records it, whatever happens."""
        try:
            tokens = await self._tokens(call, incoming)
            call.completed()
            await done(reply.answer(200, answer_headers(call), _answer(call.endpoint, tokens)))
        except CallError as error:
            call.ended_by(error)
            await tell(error, call, incoming.dialect, reply)
        finally:
            call.broke_off()
            call.clock.end_s = call.clock.now()
            self.pipeline.bus.publish(CallEnded(record_of(call)))

    async def _tokens(self, call: Call, incoming: Incoming) -> int:
        served = COUNTED[call.endpoint]
        order = call.order = await self.pipeline.ordered(call, incoming, endpoint=served)
        await self._count_request(call, order)
        told = await self._asked(call, order) if self._asking < MOST_AT_ONCE else None
        return order.count.size.input_tokens if told is None else told

    async def _asked(self, call: Call, order: Order) -> int | None:
        body = msgspec.json.encode({**order.body.body, "model": order.route.upstream_model})
        self._asking += 1
        try:
            for target in self._counting(order, call.endpoint)[:MOST_ASKED]:
                tokens = await self._told_by(target, f"/v1/{call.endpoint}", body)
                if tokens is not None:
                    call.replica = target.slug
                    return tokens
        finally:
            self._asking -= 1
        return None

    async def _count_request(self, call: Call, order: Order) -> None:
        """Raises Rejected: the limit on requests, or QUOTA_UNAVAILABLE."""
        demands = _demands(call, order)
        await reserve(self.store, call, demands)
        charges = {demand.key: demand.amount for demand in demands}
        self.store.settle(call.call_id, charges)

    def _counting(self, order: Order, endpoint: str) -> list[ReplicaTarget]:
        """Replicas that may see this prompt, serve, and can count; in random order."""
        found = []
        for value in order.route.pool.replicas:
            if order.eligible is not None and value.slug not in order.eligible:
                continue
            try:
                replica = self.fleet.replica(order.route.pool.slug, value.slug)
            except UnknownReplica:
                continue
            able = endpoint in adapter_of(replica.target.kind).endpoints
            if able and replica.state == "serving":
                found.append(replica.target)
        self.rng.shuffle(found)
        return found

    async def _told_by(self, target: ReplicaTarget, path: str, body: bytes) -> int | None:
        """None where this replica does not tell. Raises UpstreamError(UPSTREAM_REFUSED) where it
        says that the request is wrong."""
        try:
            answer = await self.asker.post(
                target, path, body, timeout_s=ANSWER_S, max_bytes=MOST_BYTES
            )
        except UpstreamError:
            return None
        if answer.status in _WRONG:
            raise error_for_status(answer.status, answer.body)
        try:
            return msgspec.json.decode(answer.body, type=Counted).input_tokens
        except (msgspec.DecodeError, RecursionError):
            return None


def _demands(call: Call, order: Order) -> tuple[Demand, ...]:
    tenant, key = order.principal.tenant, order.principal.key
    payer = Payer(
        tenant.slug,
        key.key_id,
        _of_requests(tenant.limits),
        _of_requests(key.limits),
        budgets_fail_closed=tenant.over_limit == "stop",
    )
    place = Place(order.route.pool.slug, order.route.klass)
    return demands_for(payer, place, order.count.size, wall_s=call.arrived_at)


def _of_requests(limits: Iterable[Limit]) -> tuple[Limit, ...]:
    return tuple(limit for limit in limits if limit.meter == REQUESTS)
