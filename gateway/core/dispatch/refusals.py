"""What a call is told that leaves the queue without a slot: the cause, the limit, the use, when to
retry.

Retry-After for load is the predicted wait, 1 to 60 s; unknown counts as 60. Where no replica can
serve, it is the time in which a replica that is down can be back: two probes, 5 s apart. While the
gateway shuts down it is the time in which its successor is up.

Messages name the pool, never the prompt, the key or another tenant.
"""

from __future__ import annotations

import math

from gateway.core.dispatch.effects import Refuse
from gateway.core.queues.call import QueuedCall
from gateway.core.queues.load import FullQueue
from gateway.core.reasons import Reason

RETRY_AFTER_S = (1.0, 60.0)
BACK_UP_S = 10.0
SUCCESSOR_UP_S = 5.0


def retry_after_s(predicted_wait_s: float | None) -> float:
    shortest_s, longest_s = RETRY_AFTER_S
    return (
        longest_s if predicted_wait_s is None else min(max(predicted_wait_s, shortest_s), longest_s)
    )


def queue_full(call: QueuedCall, bound: FullQueue, wait_s: float | None) -> Refuse:
    label = call.ticket.klass.label
    after_s = retry_after_s(wait_s)
    text = (
        f"The {label} queue of {bound.whose} is full: {bound.used} of {bound.limit}"
        f" {bound.unit} wait. Retry in {math.ceil(after_s)} s."
    )
    return Refuse(call.ticket.call_id, Reason.QUEUE_FULL, text, after_s)


def expired(call: QueuedCall, now_s: float, wait_s: float | None) -> Refuse:
    waited_s = now_s - call.queued_s
    after_s = retry_after_s(wait_s)
    retry = f" Retry in {math.ceil(after_s)} s."
    if call.ticket.deadline_s <= call.expires_s:
        text = f"The caller's deadline passed after {waited_s:.1f} s in the queue."
        return Refuse(call.ticket.call_id, Reason.DEADLINE, text + retry, after_s)
    limit_s = call.expires_s - call.queued_s
    text = (
        f"No slot became free in {waited_s:.1f} s; class {call.ticket.klass.label} waits"
        f" at most {limit_s:.0f} s."
    )
    return Refuse(call.ticket.call_id, Reason.QUEUE_TIMEOUT, text + retry, after_s)


def no_replica(call: QueuedCall, pool: str, replicas: int) -> Refuse:
    failed = len(call.ticket.excluded)
    tried = f", {failed} of them failed this call" if failed else ""
    text = (
        f"No replica of pool {pool} can serve this call: {replicas} configured{tried},"
        f" none admits it. Retry in {math.ceil(BACK_UP_S)} s."
    )
    return Refuse(call.ticket.call_id, Reason.NO_REPLICA, text, BACK_UP_S)


def draining(call_id: str) -> Refuse:
    text = f"The gateway is shutting down. Retry in {math.ceil(SUCCESSOR_UP_S)} s."
    return Refuse(call_id, Reason.DRAINING, text, SUCCESSOR_UP_S)
