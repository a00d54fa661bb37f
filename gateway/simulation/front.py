"""What stands between clients and engines: Fairway's scheduler, or nothing.

``DispatcherFront`` runs the product's own ``Dispatcher`` and ``TokenEstimator``, the objects that
serve real traffic. ``DirectFront`` is the world without a gateway: every call goes to an engine at
once, at most ``calls_per_minute`` per tenant if there is such a limit (the rest is refused, as a
plain rate limit does). Both answer with the same effects.
"""

from __future__ import annotations

import random
import zlib
from collections import deque
from collections.abc import Sequence
from itertools import count
from typing import Protocol

from gateway.core.caches.prefix_chain import NO_PREFIX, PrefixChain
from gateway.core.dispatch.dispatcher import Dispatcher
from gateway.core.dispatch.effects import (
    Effect,
    Grant,
    PoolConfig,
    Refuse,
    ReplicaTelemetry,
    Ticket,
    Usage,
)
from gateway.core.estimates import TokenEstimator
from gateway.core.reasons import Reason
from gateway.simulation.call import SimulatedCall

POOL = "simulated"
NEVER_S = 1e9
_BYTES_PER_TOKEN = 4
_MINUTE_S = 60.0


class Front(Protocol):
    def submit(
        self, call: SimulatedCall, now_s: float, *, again: bool, preemptions: int = 0
    ) -> list[Effect]:
        """``preemptions``: how often the call's grant has been taken back."""
        ...

    def first_event(self, grant_id: int, now_s: float) -> list[Effect]: ...

    def progress(self, grant_id: int, output_tokens: int, now_s: float) -> list[Effect]: ...

    def release(
        self, grant_id: int, usage: Usage | None, now_s: float, *, refund: bool
    ) -> list[Effect]: ...

    def telemetry(self, sample: ReplicaTelemetry, now_s: float) -> list[Effect]: ...

    def wake(self, now_s: float) -> list[Effect]: ...

    @property
    def next_wake(self) -> float | None: ...


class DispatcherFront:
    """``knows_lengths``: an oracle tells the output length; otherwise the mean of what the tenant's
    calls had, as the gateway learns it."""

    def __init__(
        self,
        config: PoolConfig,
        *,
        seed: int,
        knows_lengths: bool = False,
        deadline_s: float | None = None,
    ) -> None:
        self.dispatcher = Dispatcher(POOL, config, random.Random(seed), 0.0)
        self._estimator = TokenEstimator()
        self._knows_lengths = knows_lengths
        self._deadline_s = deadline_s
        self._tenant_of: dict[int, str] = {}
        self._tenants: dict[str, str] = {}

    def submit(
        self, call: SimulatedCall, now_s: float, *, again: bool, preemptions: int = 0
    ) -> list[Effect]:
        self._tenants[call.call_id] = call.tenant
        ticket = self.ticket(call, again=again, preemptions=preemptions)
        return self._seen(self.dispatcher.submit(ticket, now_s))

    def ticket(self, call: SimulatedCall, *, again: bool, preemptions: int = 0) -> Ticket:
        expected = call.output_tokens
        if not self._knows_lengths:
            expected = round(self._estimator.output_tokens(POOL, call.tenant).mean)
        deadline_s = NEVER_S if self._deadline_s is None else call.at_s + self._deadline_s
        return Ticket(
            call_id=call.call_id,
            tenant=call.tenant,
            key_id=call.tenant,
            klass=call.klass,
            arrived_s=call.at_s,
            deadline_s=deadline_s,
            input_tokens=call.input_tokens,
            output_tokens=max(1, expected),
            body_bytes=call.input_tokens * _BYTES_PER_TOKEN,
            eligible=call.eligible,
            again=again,
            prefix=_prefix_of(call),
            preemptions=preemptions,
            conversation=call.conversation,
            prompt_hash=zlib.crc32(call.call_id.rstrip("+").encode()),
            retry_count=call.attempt,
        )

    def first_event(self, grant_id: int, now_s: float) -> list[Effect]:
        return self._seen(self.dispatcher.first_event(grant_id, now_s))

    def progress(self, grant_id: int, output_tokens: int, now_s: float) -> list[Effect]:
        return self._seen(self.dispatcher.progress(grant_id, output_tokens, now_s))

    def release(
        self, grant_id: int, usage: Usage | None, now_s: float, *, refund: bool
    ) -> list[Effect]:
        tenant = self._tenant_of.pop(grant_id)
        if usage is not None and not refund:
            self._estimator.learn_output(POOL, tenant, output_tokens=usage.output_tokens)
        return self._seen(self.dispatcher.release(grant_id, usage, now_s, refund=refund))

    def telemetry(self, sample: ReplicaTelemetry, now_s: float) -> list[Effect]:
        return self._seen(self.dispatcher.apply(sample, now_s))

    def wake(self, now_s: float) -> list[Effect]:
        return self._seen(self.dispatcher.wake(now_s))

    @property
    def next_wake(self) -> float | None:
        return self.dispatcher.next_wake

    def _seen(self, effects: list[Effect]) -> list[Effect]:
        for effect in effects:
            if isinstance(effect, Grant):
                self._tenant_of[effect.grant_id] = self._tenants.pop(effect.call_id)
            elif isinstance(effect, Refuse):
                self._tenants.pop(effect.call_id, None)
        return effects


def _prefix_of(call: SimulatedCall) -> PrefixChain:
    """Hashes of the prompt's full blocks, without those of the answer."""
    if not call.block_tokens:
        return NO_PREFIX
    blocks = call.input_tokens // call.block_tokens
    return PrefixChain(call.block_hashes[:blocks], call.block_tokens)


class DirectFront:
    """Calls go to the replicas in turn."""

    def __init__(self, replicas: Sequence[str], calls_per_minute: int | None = None) -> None:
        self._replicas = replicas
        self._limit = calls_per_minute
        self._taken: dict[str, deque[float]] = {}
        self._grant_ids = count(1)

    def submit(
        self, call: SimulatedCall, now_s: float, *, again: bool, preemptions: int = 0
    ) -> list[Effect]:
        if not self._within_limit(call.tenant, now_s):
            text = f"At most {self._limit} calls per minute."
            return [Refuse(call.call_id, Reason.REQUESTS_PER_MINUTE, text, _MINUTE_S)]
        grant_id = next(self._grant_ids)
        replica = self._replicas[grant_id % len(self._replicas)]
        return [Grant(call.call_id, grant_id, replica, 0.0, "direct")]

    def first_event(self, grant_id: int, now_s: float) -> list[Effect]:
        return []

    def progress(self, grant_id: int, output_tokens: int, now_s: float) -> list[Effect]:
        return []

    def release(
        self, grant_id: int, usage: Usage | None, now_s: float, *, refund: bool
    ) -> list[Effect]:
        return []

    def telemetry(self, sample: ReplicaTelemetry, now_s: float) -> list[Effect]:
        return []

    def wake(self, now_s: float) -> list[Effect]:
        return []

    @property
    def next_wake(self) -> float | None:
        return None

    def _within_limit(self, tenant: str, now_s: float) -> bool:
        if self._limit is None:
            return True
        taken = self._taken.setdefault(tenant, deque())
        while taken and taken[0] < now_s - _MINUTE_S:
            taken.popleft()
        if len(taken) >= self._limit:
            return False
        taken.append(now_s)
        return True
