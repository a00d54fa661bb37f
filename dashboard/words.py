"""What is the state of things, in one or two sentences?

The sentence under a page's title. Generated from the same facts as the figures below it, the worst
first; what is unknown is said to be unknown.
"""

from __future__ import annotations

from collections.abc import Iterator

from dashboard.live.facts import FleetFacts, PoolRow, TenantRow
from dashboard.numbers import count, duration, listed, many, percent
from gateway.core.priority import PriorityClass

FULL = 0.9  # of its slots; above, calls that wait are the pool's doing
SERVING = {"serving", "starting", "half_open"}
STATES = {
    "serving": ("ok", "Serving"),
    "starting": ("warn", "Starting"),
    "half_open": ("warn", "On trial"),
    "down": ("bad", "Down"),
    "ejected": ("bad", "Ejected"),
    "draining": ("warn", "Draining"),
    "disabled": ("idle", "Disabled"),
}

CONSEQUENCES = {
    "quota_store": "each gateway keeps to its last share of the limits, hard budgets are refused",
    "database": "calls go on from memory, records wait on disk, pages may fail",
    "ledger": "calls go on, their records wait on disk",
    "memory": "the least urgent calls are refused",
    "journal": "records cannot be kept, hard budgets are refused",
}


def fleet_sentence(facts: FleetFacts) -> str:
    if facts.at is None:
        return "The gateway has sent no figures yet. They appear here one second after it starts."
    replicas = sum(len(pool.replicas) for pool in facts.pools)
    inventory = [
        many(len(facts.pools), "pool"),
        many(replicas, "replica"),
        many(len(facts.tenants), "tenant"),
    ]
    findings = [*_degraded(facts), *_replicas(facts), *_pools(facts), *_refusals(facts)]
    return " ".join([f"{', '.join(inventory)}.", *(findings or [_calm(facts)])])


def tenant_sentence(facts: FleetFacts) -> str:
    row = facts.own
    if facts.at is None:
        return "The gateway has sent no figures yet. They appear here one second after it starts."
    if row is None or not row.calls:
        minutes = duration(facts.recent_s)
        waiting = f" {many(row.in_flight, 'call')} in flight." if row and row.in_flight else ""
        return f"No call ended in the last {minutes}.{waiting}"
    told = [f"{many(row.calls, 'call')} ended in the last {duration(facts.recent_s)}"]
    if row.ttft.p50_s is not None:
        told.append(f"half of them began to answer within {duration(row.ttft.p50_s)}")
    return f"{', '.join(told)}. {' '.join(_own_refusals(row)) or 'None was limited or shed.'}"


def state_of_pool(row: PoolRow) -> tuple[str, str]:
    """Kind (ok, warn, bad, idle) and words."""
    serving = [one for one in row.replicas if one.state in SERVING]
    if not row.replicas:
        return "idle", "No replicas"
    if not serving:
        return "bad", "None serves"
    if row.queued and (row.fullness or 0.0) >= FULL:
        return "warn", "Saturated"
    if len(serving) < len(row.replicas):
        return "warn", f"{len(serving)} of {len(row.replicas)} serve"
    return "ok", "Serving"


def queue_words(row: PoolRow) -> str:
    """31 batch, 9 standard; empty when nothing waits."""
    parts = [
        f"{count(number)} {klass.label}"
        for klass in reversed(PriorityClass)
        if (number := row.pool.queued.get(klass, 0))
    ]
    return listed(parts) if parts else ""


def _degraded(facts: FleetFacts) -> Iterator[str]:
    if facts.degraded:
        yield f"Degraded: {listed([part.partition(':')[0] for part in facts.degraded])}."


def degraded_words(part: str) -> str:
    """A part, its cause, and what that means for calls."""
    consequence = CONSEQUENCES.get(part.partition(":")[0])
    return f"{part}. Meanwhile {consequence}." if consequence else f"{part}."


def _replicas(facts: FleetFacts) -> Iterator[str]:
    for pool in facts.pools:
        away = [one.replica for one in pool.replicas if one.state in {"down", "ejected"}]
        if away and len(away) == len(pool.replicas):
            yield f"No replica of {pool.pool.pool} serves."
        elif away:
            yield f"{listed(away)} of {pool.pool.pool} {'is' if len(away) == 1 else 'are'} away."


def _pools(facts: FleetFacts) -> Iterator[str]:
    for pool in facts.pools:
        if not pool.queued:
            continue
        oldest = pool.pool.oldest_wait_s
        waited = f", the oldest {duration(oldest)}" if oldest is not None else ""
        yield (
            f"{pool.pool.pool} has {pool.pool.in_flight} of {pool.pool.slots} slots in use and"
            f" {queue_words(pool)} waiting{waited}."
        )


def _refusals(facts: FleetFacts) -> Iterator[str]:
    lately = duration(facts.recent_s)
    for verb, numbers in (
        ("shed", [row.shed for row in facts.tenants]),
        ("limited by quota", [row.limited for row in facts.tenants]),
        ("failed", [row.failed for row in facts.tenants]),
    ):
        hit = [(n, row.policy.name) for n, row in zip(numbers, facts.tenants, strict=True) if n]
        if not hit:
            continue
        hit.sort(reverse=True)
        names = [name for _, name in hit[:2]]
        if len(hit) > 2:
            names.append(many(len(hit) - 2, "other"))
        total = sum(numbers)
        was = "" if verb == "failed" else "was " if total == 1 else "were "
        yield f"{many(total, 'call')} of {listed(names)} {was}{verb} in the last {lately}."


def _calm(facts: FleetFacts) -> str:
    if facts.total is None or not facts.total.calls:
        return f"Nothing waits; no call ended in the last {duration(facts.recent_s)}."
    return "Nothing waits, every replica serves, no call was refused."


def _own_refusals(row: TenantRow) -> Iterator[str]:
    if row.limited:
        yield f"{many(row.limited, 'call')} met one of your own limits."
    if row.shed:
        yield f"{many(row.shed, 'call')} {'was' if row.shed == 1 else 'were'} shed by load."
    if row.failed:
        yield f"{many(row.failed, 'call')} failed in a replica."


def share_words(row: TenantRow) -> str:
    """Received against entitled, for the cell's hover text."""
    if row.fair_share is None:
        return "Asked for nothing in the last 10 s"
    return (
        f"{percent(row.share)} of all service in the last 3 s, {percent(row.steady_share)} in the"
        f" last 10 s; {percent(row.fair_share)} would be fair"
    )
