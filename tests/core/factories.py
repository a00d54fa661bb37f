"""Tickets and pools with everything filled in that a test does not care about."""

from __future__ import annotations

import random
from itertools import count
from typing import Any

from gateway.core.dispatch.dispatcher import Dispatcher
from gateway.core.dispatch.effects import Effect, Grant, PoolConfig, Refuse, ReplicaConfig, Ticket
from gateway.core.priority import PriorityClass

INTERACTIVE, STANDARD, BATCH = PriorityClass
_ids = count(1)


def ticket(
    tenant: str = "alice",
    klass: PriorityClass = STANDARD,
    *,
    call_id: str | None = None,
    arrived_s: float = 0.0,
    deadline_s: float = 1e9,
    input_tokens: int = 100,
    output_tokens: int = 50,
    body_bytes: int = 400,
    eligible: frozenset[str] | None = None,
    excluded: frozenset[str] = frozenset(),
    again: bool = False,
    **fields: Any,
) -> Ticket:
    return Ticket(
        call_id=call_id or f"call-{next(_ids)}",
        tenant=tenant,
        key_id=fields.pop("key_id", f"key-{tenant}"),
        klass=klass,
        arrived_s=arrived_s,
        deadline_s=deadline_s,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        body_bytes=body_bytes,
        eligible=eligible,
        excluded=excluded,
        again=again,
        **fields,
    )


def replicas(number: int = 1, slots: int = 1) -> tuple[ReplicaConfig, ...]:
    return tuple(ReplicaConfig(f"r{index}", slots) for index in range(number))


def config(number: int = 1, slots: int = 1, **changes: Any) -> PoolConfig:
    values: dict[str, Any] = {"replicas": replicas(number, slots), "weights": {}}
    return PoolConfig(**{**values, **changes})


def dispatcher(pool_config: PoolConfig | None = None, *, seed: int = 0) -> Dispatcher:
    return Dispatcher("pool", pool_config or config(), random.Random(seed), 0.0)


def grants(effects: list[Effect]) -> list[Grant]:
    return [effect for effect in effects if isinstance(effect, Grant)]


def refusals(effects: list[Effect]) -> list[Refuse]:
    return [effect for effect in effects if isinstance(effect, Refuse)]


def granted_ids(effects: list[Effect]) -> list[str]:
    return [grant.call_id for grant in grants(effects)]
