"""How much of one replica's batch may one tenant hold while others wait?

The fair queue shares service over time; the batch of a replica is shared at one moment. A tenant
whose calls are few and huge can fill the KV cache or the compute of a replica for minutes with
service it is entitled to later, and everybody who shares the batch is slow meanwhile. So while
calls of other tenants wait, a tenant's calls in flight on a replica, the next one included, hold at
most

  1.25 * weight / weight of all tenants that wait in the class

of that replica's batch, but two calls always. The part is the *dominant* one: the larger of its
part of the service cost and its part of the tokens (KV cache) in flight there. Slots are not
counted: with equal slots a tenant with 2,000-token prompts would receive a hundred times the
service of one with 20-token prompts.

A tenant at its share is passed over, not refused: the next in fair order goes. When every waiting
tenant is at its share, the fair order alone decides, so no slot stays empty.

Invariants: parts add up over the leases in flight and are exactly gone with the last one.
Units: service tokens, tokens. Source: Ghodsi et al., "Dominant Resource Fairness" (NSDI'11).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gateway.core.dispatch.effects import PoolConfig
from gateway.core.queues.call import QueuedCall
from gateway.core.queues.load import QueueLoad
from gateway.core.routing.replica import Replica

CALLS_ALWAYS = 2


@dataclass(slots=True)
class _Part:
    calls: int = 0
    cost: float = 0.0
    tokens: int = 0


@dataclass(slots=True)
class _Batch:
    whole: _Part = field(default_factory=_Part)
    of: dict[str, _Part] = field(default_factory=dict)


class BatchShare:
    def __init__(self, config: PoolConfig, load: QueueLoad) -> None:
        self.config = config
        self._load = load
        self._batches: dict[Replica, _Batch] = {}

    def granted(self, replica: Replica, call: QueuedCall) -> None:
        ticket = call.ticket
        tokens = ticket.input_tokens + ticket.output_tokens
        batch = self._batches.get(replica)
        if batch is None:
            batch = self._batches[replica] = _Batch()
        part = batch.of.get(ticket.tenant)
        if part is None:
            part = batch.of[ticket.tenant] = _Part()
        for each in (part, batch.whole):
            each.calls += 1
            each.cost += call.cost
            each.tokens += tokens

    def ended(self, replica: Replica, call: QueuedCall) -> None:
        """The same call as was granted."""
        batch, tenant = self._batches[replica], call.ticket.tenant
        tokens = call.ticket.input_tokens + call.ticket.output_tokens
        part = batch.of[tenant]
        for each in (part, batch.whole):
            each.calls -= 1
            each.cost -= call.cost
            each.tokens -= tokens
        if not part.calls:
            del batch.of[tenant]
        if not batch.whole.calls:
            del self._batches[replica]

    def applies_to(self, call: QueuedCall) -> bool:
        """Other tenants wait in its class, and they could be due more than nothing."""
        return 0 < self._limit(call) < 1

    def exceeds(self, replica: Replica, call: QueuedCall) -> bool:
        """With ``call``, its tenant would hold more of the batch than its share."""
        batch = self._batches.get(replica)
        part = batch.of.get(call.ticket.tenant) if batch is not None else None
        if batch is None or part is None or part.calls < CALLS_ALWAYS:
            return False
        limit = self._limit(call)
        tokens = call.ticket.input_tokens + call.ticket.output_tokens
        of_cost = (part.cost + call.cost) / (batch.whole.cost + call.cost)
        of_tokens = (part.tokens + tokens) / (batch.whole.tokens + tokens)
        return max(of_cost, of_tokens) > limit

    def _limit(self, call: QueuedCall) -> float:
        weight = self._load.weight(call.ticket.tenant)
        weights = self._load.weight_of_class[call.ticket.klass]
        return self.config.batch_share_ratio * weight / max(weight, weights)
