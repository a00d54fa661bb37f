"""What is written down of a call that has ended?"""

from __future__ import annotations

from zlib import crc32

from gateway.core.cost import price_microcredits, service_cost
from gateway.core.dispatch.effects import Usage
from gateway.core.reasons import Outcome
from gateway.core.records import CallRecord, CallStory
from gateway.pipeline.call import Call

SAMPLED_ONE_OF = 100
NOTHING = Usage(0, 0, 0)


def record_of(call: Call) -> CallRecord:
    """The ledger row. Call it once, after the end."""
    charged = call.charged_usage()
    usage = charged or NOTHING
    principal, body, order = call.principal, call.body, call.order
    line = principal.line if principal else None
    clock = call.clock
    timed = call.outcome is Outcome.COMPLETED or call.relayed
    return CallRecord(
        call_id=call.call_id,
        arrived_at=call.arrived_at,
        tenant=principal.tenant.slug if principal else "",
        key_id=principal.key.key_id if principal else "",
        endpoint=call.endpoint,
        model=body.model if body else "",
        pool=order.route.pool.slug if order else "",
        klass=order.route.klass if order else None,
        stream=body.stream if body else False,
        outcome=call.outcome or Outcome.FAILED,
        reason=call.reason,
        status=call.status,
        replica=call.replica,
        request_id=call.request_id,
        prompt_tokens=usage.input_tokens,
        cached_tokens=usage.cached_tokens,
        completion_tokens=usage.output_tokens,
        received_tokens=call.received_tokens,
        reserved_tokens=order.count.reserved_tokens if order else 0,
        estimated=charged is not None and call.usage is None,
        charge_microcredits=_price(call, usage),
        service_cost=service_cost(usage.input_tokens, usage.cached_tokens, usage.output_tokens),
        queue_s=call.queued_s,
        ttft_s=clock.ttft_s if timed else None,
        first_visible_s=clock.visible_s if timed else None,
        tpot_s=clock.tpot_s(usage.output_tokens) if timed else None,
        e2e_s=clock.e2e_s if timed else None,
        duration_s=(clock.end_s or clock.now()) - clock.arrive_s,
        loop_lag_s=call.loop_lag_s,
        retry_after_s=call.retry_after_s,
        message=call.message,
        retry_count=order.hints.retry_count if order else 0,
        client=order.hints.client if order else "",
        batch_id=line.batch_id if line else "",
        line_no=line.line_no if line else None,
        config_version=call.config_version,
        degraded=call.reservation.degraded if call.reservation else False,
        attempts=tuple(call.attempts),
        predicted_cached_tokens=call.predicted_cached_tokens,
        story=CallStory(tuple(call.decisions)) if _is_kept(call) else None,
    )


def _is_kept(call: Call) -> bool:
    """The story of a call that was refused, failed or retried, and of one in a hundred others."""
    if call.order is None:
        return False
    if call.outcome is not Outcome.COMPLETED or len(call.attempts) > 1:
        return True
    return crc32(call.call_id.encode()) % SAMPLED_ONE_OF == 0


def _price(call: Call, usage: Usage) -> int:
    if call.order is None:
        return 0
    prices, usage = call.order.route.pool.prices, call.priced(usage)
    return price_microcredits(prices, usage.input_tokens, usage.cached_tokens, usage.output_tokens)
