"""Which replicas of its pool may run a call? Filters before any policy is asked.

  endpoint    kinds of servers that are known to serve it, if there are any
  dedicated   a replica that names tenants runs their calls only
  region      the caller may ask for one (``x-fairway-region``); it must exist in the pool
  capability  what the request needs (pictures, tools, a schema of the answer) and a replica that
              lists its capabilities does not list; one that lists none is as its pool
  context     prompt and expected answer fit; where they fit nowhere, the longest contexts: an
              estimate never refuses a call
  band        replicas meant for prompts of this length, if there are any: tiers of a pool

A region that does not exist and a capability that nobody has are the caller's mistake (400).
Whether a replica is healthy is not asked here: a call waits for its replicas.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gateway.core.errors import Rejected
from gateway.core.reasons import Reason
from gateway.pipeline.call import Order
from gateway.replicas.adapters import adapter_of
from gateway.snapshot.values import PoolValue, ReplicaValue

ENABLED = "enabled"
MOST_ROOMS = 10_000
_ROOMS: dict[tuple[str, str], tuple[PoolValue, float]] = {}
_PLAIN_UNLESS = frozenset(
    ("tools", "functions", "text", "output_config", "response_format")  # see _needed
)
Test = Callable[[ReplicaValue], bool]


def eligible_replicas(order: Order, endpoint: str) -> frozenset[str] | None:
    """None = all of the pool. ``endpoint``: the one that its replica must serve. Raises
    Rejected(INVALID_REQUEST)."""
    if _all_alike(order, endpoint):
        return None
    pool = order.route.pool
    replicas = [replica for replica in pool.replicas if replica.state == ENABLED]
    everybody = len(replicas)
    replicas = _preferred(replicas, lambda each: endpoint in adapter_of(each.kind).endpoints)
    tenant, region = order.principal.tenant.slug, order.hints.region
    needed = _needed(order)
    tokens = _tokens_at_once(order)
    replicas = [each for each in replicas if not each.tenants or tenant in each.tenants]
    if region and replicas:
        replicas = _must(replicas, lambda each: each.region == region, f"the region {region!r}")
    if needed and replicas:
        what = " and ".join(sorted(needed))
        replicas = _must(replicas, lambda each: _has(each, pool, needed), what)
    replicas = _fitting(replicas, pool, tokens + order.count.expected_output)
    replicas = _preferred(replicas, lambda each: _in_band(each, tokens))
    if len(replicas) == everybody:
        return None
    return frozenset(replica.slug for replica in replicas)


def _all_alike(order: Order, endpoint: str) -> bool:
    """Nothing is asked that any replica of the pool could lack: most calls, and quick to tell."""
    body, pool = order.body, order.route.pool
    if body.has_media or order.hints.region or not _PLAIN_UNLESS.isdisjoint(body.body):
        return False
    room = _room_of_all(pool, endpoint)
    return order.count.size.input_tokens + order.count.expected_output <= room


def _room_of_all(pool: PoolValue, endpoint: str) -> float:
    """Tokens that fit every enabled replica; -1 where replicas differ in anything else. Looked at
    once per configuration: known by the very object of the snapshot."""
    known = _ROOMS.get((pool.slug, endpoint))
    if known is not None and known[0] is pool:
        return known[1]
    if len(_ROOMS) >= MOST_ROOMS:
        _ROOMS.clear()
    room = _common_room(pool, endpoint)
    _ROOMS[pool.slug, endpoint] = pool, room
    return room


def _common_room(pool: PoolValue, endpoint: str) -> float:
    room = float("inf")
    for replica in pool.replicas:
        if replica.state != ENABLED:
            continue
        if endpoint not in adapter_of(replica.kind).endpoints or replica.tenants:
            return -1.0
        if replica.band_from_tokens or replica.band_to_tokens:
            return -1.0
        room = min(room, replica.context_tokens or pool.context_tokens or float("inf"))
    return room


def _tokens_at_once(order: Order) -> int:
    """Of the prompt that must fit a context: of several inputs the longest."""
    tokens, body = order.count.size.input_tokens, order.body
    if body.longest_bytes is None or not body.prompt_bytes:
        return tokens
    return -(-tokens * body.longest_bytes // body.prompt_bytes)


def _needed(order: Order) -> frozenset[str]:
    body = order.body
    needed = {"vision"} if body.has_media else set()
    if body.body.get("tools") or body.body.get("functions"):
        needed.add("tools")
    if _asks_schema(body.body):
        needed.add("structured_output")
    return frozenset(needed)


def _asks_schema(body: Mapping[str, Any]) -> bool:
    """In chat, in ``responses``, or in ``messages``."""
    holders = (body.get("text"), body.get("output_config"))
    nested = [each.get("format") for each in holders if isinstance(each, dict)]
    forms = (body.get("response_format"), *nested)
    return any(isinstance(form, dict) and form.get("type") == "json_schema" for form in forms)


def _has(replica: ReplicaValue, pool: PoolValue, needed: frozenset[str]) -> bool:
    """What nobody says anything about is not refused."""
    known = replica.capabilities or pool.capabilities
    return not known or needed <= known


def _fitting(replicas: Sequence[ReplicaValue], pool: PoolValue, tokens: int) -> list[ReplicaValue]:
    def room(replica: ReplicaValue) -> float:
        return replica.context_tokens or pool.context_tokens or float("inf")

    fitting = [replica for replica in replicas if room(replica) >= tokens]
    if fitting or not replicas:
        return fitting
    longest = max(map(room, replicas))
    return [replica for replica in replicas if room(replica) == longest]


def _in_band(replica: ReplicaValue, tokens: int) -> bool:
    most = replica.band_to_tokens or float("inf")
    return replica.band_from_tokens <= tokens < most


def _preferred(replicas: list[ReplicaValue], test: Test) -> list[ReplicaValue]:
    return [replica for replica in replicas if test(replica)] or replicas


def _must(replicas: Sequence[ReplicaValue], test: Test, what: str) -> list[ReplicaValue]:
    left = [replica for replica in replicas if test(replica)]
    if not left:
        raise Rejected(Reason.INVALID_REQUEST, f"No replica of this model has {what}.")
    return left
