"""What becomes of calls that were running when the last process died?

Each is settled by what it had received and gets its ledger row: a stream that had begun to reach
its caller owes its prompt and those tokens, anything else owes nothing. Settling and the ledger are
idempotent by call id, so a crash in between is repeated without harm.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import structlog

from gateway.active_calls import Orphan, Phase, forget, recover
from gateway.core.cost import FREE, price_microcredits, service_cost
from gateway.core.dispatch.effects import Usage
from gateway.core.limits.demands import BucketKey, QuotaStore
from gateway.core.limits.plan import actual_for
from gateway.core.reasons import Outcome, Reason
from gateway.core.records import CallRecord
from gateway.ledger.ledger import Ledger
from gateway.snapshot.values import Snapshot

log = structlog.get_logger(__name__)
DURABLE_S = 10.0  # after that the tables are kept for the next start
MESSAGE = "The gateway stopped while the call was running."


async def settle_orphans(path: Path, ledger: Ledger, store: QuotaStore, snapshot: Snapshot) -> int:
    """Returns how many there were. Call after the ledger's start, before the first new call."""
    orphans, damaged = recover(path, ledger.spooled_call_ids())
    for orphan in orphans:
        usage = _owed(orphan)
        charges = None if usage is None else _charges(orphan, usage, snapshot)
        await store.settle(orphan.opening.call_id, charges)
        ledger.append(_record(orphan, usage or Usage(0, 0, 0), snapshot))
    if await asyncio.to_thread(ledger.wait_durable, DURABLE_S):
        forget(path)
    if orphans or damaged:
        log.warning("orphans_settled", calls=len(orphans), damaged_slots=damaged)
    return len(orphans)


def _owed(orphan: Orphan) -> Usage | None:
    if orphan.phase is not Phase.RELAYING:
        return None
    return Usage(orphan.prompt_tokens, orphan.cached_tokens, orphan.received_tokens)


def _charges(orphan: Orphan, usage: Usage, snapshot: Snapshot) -> Mapping[BucketKey, float]:
    tenant = snapshot.tenants.get(orphan.opening.tenant)
    pool = snapshot.pools.get(orphan.opening.pool)
    keys = [BucketKey(*parts) for parts, _ in orphan.opening.demands]
    return actual_for(
        keys,
        usage,
        cached_ratio=tenant.cached_ratio if tenant else 1.0,
        prices=pool.prices if pool else FREE,
    )


def _record(orphan: Orphan, usage: Usage, snapshot: Snapshot) -> CallRecord:
    opening = orphan.opening
    pool = snapshot.pools.get(opening.pool)
    tokens = usage.input_tokens, usage.cached_tokens, usage.output_tokens
    return CallRecord(
        call_id=opening.call_id,
        arrived_at=opening.arrived_at,
        tenant=opening.tenant,
        key_id=opening.key_id,
        endpoint=opening.endpoint,
        model=opening.model,
        pool=opening.pool,
        klass=opening.klass,
        stream=opening.stream,
        outcome=Outcome.FAILED if orphan.replica else Outcome.EVICTED,
        reason=Reason.INTERNAL,
        status=500,
        replica=orphan.replica,
        request_id=opening.request_id,
        prompt_tokens=usage.input_tokens,
        cached_tokens=usage.cached_tokens,
        completion_tokens=usage.output_tokens,
        received_tokens=orphan.received_tokens,
        reserved_tokens=opening.reserved_tokens,
        estimated=True,
        charge_microcredits=price_microcredits(pool.prices if pool else FREE, *tokens),
        service_cost=service_cost(*tokens),
        message=MESSAGE,
        batch_id=opening.batch_id,
        line_no=opening.line_no,
        config_version=opening.config_version,
    )
