"""What a call is told that leaves the queue without a slot: the cause, the limit, the use, when to
retry.

Retry-After for load is the time of the call's booking (``bookings``), 1 to 60 s; unknown counts as
60, and where capacity is promised for longer the message says so. Where no replica can
serve, it is the time in which a replica that is down can be back: two probes, 5 s apart. While the
gateway shuts down it is the time in which its successor is up.

Messages name the pool, never the prompt, the key or another tenant.
"""

from __future__ import annotations

import math

from gateway.core.dispatch.effects import Refuse
from gateway.core.dispatch.shedding import Shed
from gateway.core.queues.call import QueuedCall
from gateway.core.queues.load import FullQueue
from gateway.core.reasons import Reason

LONGEST_S = 60.0
BACK_UP_S = 10.0
SUCCESSOR_UP_S = 5.0


def queue_full(call: QueuedCall, bound: FullQueue, after_s: float) -> Refuse:
    label = call.ticket.klass.label
    text = (
        f"The {label} queue of {bound.whose} is full: {bound.used} of {bound.limit}"
        f" {bound.unit} wait. {_when(after_s)}"
    )
    return Refuse(call.ticket.call_id, Reason.QUEUE_FULL, text, after_s)


def shed(one: Shed, after_s: float) -> Refuse:
    label, whose = one.call.ticket.klass.label, one.for_class.label
    over = (
        f"{one.wait_s:.1f} s of work wait ahead of class {whose}, at most {one.budget_s:.1f} s do"
    )
    if one.for_class < one.call.ticket.klass:
        over += f", and class {label} gives way"
    text = f"Refused because of load: {over}. {_when(after_s)}"
    return Refuse(one.call.ticket.call_id, Reason.SHED, text, after_s)


def expired(call: QueuedCall, now_s: float, after_s: float) -> Refuse:
    waited_s = now_s - call.queued_s
    if call.ticket.deadline_s <= call.expires_s:
        text = f"The caller's deadline passed after {waited_s:.1f} s in the queue."
        return Refuse(call.ticket.call_id, Reason.DEADLINE, f"{text} {_when(after_s)}", after_s)
    limit_s = call.expires_s - call.queued_s
    text = (
        f"No slot became free in {waited_s:.1f} s; class {call.ticket.klass.label} waits"
        f" at most {limit_s:.0f} s."
    )
    return Refuse(call.ticket.call_id, Reason.QUEUE_TIMEOUT, f"{text} {_when(after_s)}", after_s)


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


def _when(after_s: float) -> str:
    if after_s >= LONGEST_S:
        return f"Capacity is promised for the next {after_s:.0f} s: retry later than that."
    return f"Retry in {math.ceil(after_s)} s."
