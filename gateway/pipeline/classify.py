"""What does the caller ask for, and may it have it? Alias to pool, class, deadline.

A name may lead to several pools: by weight, with fallbacks for when none of the others can serve.

The class is the caller's wish, clamped to the grant of key and organization; it is lowered, never
raised. The deadline is the caller's own, else the SDK's read timeout, else 30 minutes.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

import msgspec

from gateway.auth import Principal
from gateway.core.errors import Rejected
from gateway.core.priority import PriorityClass
from gateway.core.reasons import Reason
from gateway.snapshot.values import AliasValue, PoolValue, Snapshot, Target
from gateway.wire.dialect import ParsedBody
from gateway.wire.request_hints import RequestHints

DEADLINE_S = 30 * 60.0


class Route(msgspec.Struct, frozen=True):
    """``deadline_s`` counts from arrival."""

    pool: PoolValue
    upstream_model: str
    klass: PriorityClass
    deadline_s: float


class Asked(msgspec.Struct, frozen=True):
    """What one call asks for."""

    endpoint: str
    body: ParsedBody
    hints: RequestHints


def classify(
    principal: Principal,
    asked: Asked,
    snapshot: Snapshot,
    serves: Callable[[str], bool] = lambda pool: True,
) -> Route:
    """``serves``: can this pool run calls now? Raises Rejected: MODEL_NOT_FOUND, MODEL_NOT_ALLOWED,
    ENDPOINT_NOT_SERVED, BODY_TOO_LARGE."""
    alias = _alias(asked.body.model, principal, snapshot)
    target = target_of(alias, asked.body, serves)
    pool = snapshot.pools[target.pool]
    if asked.endpoint not in pool.endpoints:
        raise Rejected(
            Reason.ENDPOINT_NOT_SERVED,
            f"The model {alias.name!r} does not serve /v1/{asked.endpoint}.",
        )
    if asked.body.size_bytes > pool.most_body_bytes:
        raise body_too_large(pool.most_body_bytes)
    hints = asked.hints
    wish = principal.default_class if hints.klass is None else hints.klass
    deadline_s = DEADLINE_S if hints.deadline_s is None else hints.deadline_s
    return Route(pool, target.upstream_model, wish.clamped_to(principal.highest_class), deadline_s)


def target_of(alias: AliasValue, body: ParsedBody, serves: Callable[[str], bool]) -> Target:
    """By weight among those that can serve, fallbacks only when no other can. The same beginning of
    a conversation leads to the same target while nothing changes, so that its cache is found."""
    targets = alias.targets
    if not alias.others:
        return targets[0]
    for fallback in (False, True):
        able = [each for each in targets if each.fallback is fallback and serves(each.pool)]
        point = _point(body) * sum(each.weight for each in able)
        for each in able:
            point -= each.weight
            if point < 0:
                return each
    return targets[0]


def _point(body: ParsedBody) -> float:
    """0..1, equal for equal beginnings."""
    names = ("messages", "prompt", "input")
    messages = next((body.body[name] for name in names if name in body.body), None)
    start = messages[:2] if isinstance(messages, list) else str(messages)[:1_000]
    return zlib.crc32(repr(start).encode("utf-8", "replace")) / 2**32


def body_too_large(most_bytes: int) -> Rejected:
    return Rejected(Reason.BODY_TOO_LARGE, f"The body may have at most {most_bytes:,} bytes.")


def usable_models(principal: Principal, snapshot: Snapshot) -> list[str]:
    """Names of the models that this caller may use, in order."""
    allowed = principal.key.models
    return sorted(name for name in snapshot.aliases if allowed is None or name in allowed)


def _alias(model: str, principal: Principal, snapshot: Snapshot) -> AliasValue:
    alias = snapshot.aliases.get(model)
    if alias is None:
        message = f"The model {model[:100]!r} does not exist."
        raise Rejected(Reason.MODEL_NOT_FOUND, message, param="model")
    if principal.key.models is not None and model not in principal.key.models:
        message = f"This API key may not use {model!r}."
        raise Rejected(Reason.MODEL_NOT_ALLOWED, message, param="model")
    return alias
