"""What is the caller told: headers of an answer, and the words of an error?

Headers say as much as is known when they go out. An error is a status with a body while the reply
is open, the dialect's error event once it is committed, and nothing to a caller that has left.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from gateway.core.errors import CallError, Evicted, LimitExceeded
from gateway.core.limits.demands import BucketKey, BucketState
from gateway.core.reasons import Reason
from gateway.pipeline.call import Call
from gateway.pipeline.caller import done
from gateway.pipeline.reply import Headers, Reply, Stage
from gateway.wire.dialect import Dialect
from gateway.wire.headers import CallLabels, call_headers, encoded
from gateway.wire.retry_headers import error_headers

_RNG = random.SystemRandom()


def answer_headers(call: Call) -> Headers:
    return encoded(_labels(call, call.queued_s))


async def tell(error: CallError, call: Call, dialect: Dialect, reply: Reply) -> None:
    if error.reason is Reason.CLIENT_GONE:
        return
    if reply.stage is Stage.OPEN:
        body = dialect.error_body(error, call.request_id)
        await done(reply.answer(call.style.status(error), _refusal_headers(call, error), body))
    else:
        event = dialect.error_event(error, call.request_id, next_event=call.next_event)
        await done(reply.finish(event))


def _refusal_headers(call: Call, error: CallError) -> Headers:
    waited_s = error.waited_s if isinstance(error, Evicted) else call.queued_s
    labels = _labels(call, waited_s, _refusing(error))
    return encoded({**labels, **error_headers(error, _RNG)})


def _refusing(error: CallError) -> tuple[BucketState, ...]:
    """The bucket that refused; its reset is the moment at which the call is expected to fit."""
    if not isinstance(error, LimitExceeded):
        return ()
    wait_s = error.retry_after_s or 0.0
    return (BucketState(_key(error.bucket), error.limit, error.used, 0.0, wait_s),)


def _key(bucket: str) -> BucketKey:
    owner, pool, klass, meter, period = bucket.split("|")
    return BucketKey(owner, meter, pool, klass, period)


def _labels(
    call: Call, queue_s: float | None, refusing: Sequence[BucketState] = ()
) -> dict[str, str]:
    labels = CallLabels(
        call.call_id,
        call.request_id,
        klass=call.order.route.klass if call.order else None,
        replica=call.replica or None,
        queue_s=queue_s,
        prefix_hit_ratio=_prefix_hit_ratio(call),
    )
    buckets = call.reservation.buckets if call.reservation else refusing
    limits = call.style.limit_headers(buckets, call.clock.source.wall())
    return {**call_headers(labels), call.style.request_id_header: call.request_id, **limits}


def _prefix_hit_ratio(call: Call) -> float | None:
    """As reported; as predicted while nothing is reported, which is when a stream begins."""
    usage = call.usage
    if usage is not None:
        return usage.cached_tokens / usage.input_tokens if usage.input_tokens else None
    if not call.decisions or call.order is None:
        return None
    return call.predicted_cached_tokens / max(1, call.order.count.size.input_tokens)
