"""Records and openings with everything filled in; a test names only what it is about."""

from __future__ import annotations

from typing import Any

from gateway.active_calls import Opening
from gateway.core.priority import PriorityClass
from gateway.core.reasons import Outcome
from gateway.core.records import AttemptRecord, CallRecord

ARRIVED_AT = 1_796_000_000.0


def call_record(call_id: str = "call-1", **changes: Any) -> CallRecord:
    values: dict[str, Any] = {
        "call_id": call_id,
        "arrived_at": ARRIVED_AT,
        "tenant": "acme",
        "key_id": "k1234567",
        "endpoint": "chat/completions",
        "model": "sim",
        "pool": "sim-pool",
        "klass": PriorityClass.STANDARD,
        "stream": True,
        "outcome": Outcome.COMPLETED,
        "reason": None,
        "status": 200,
        "replica": "r1",
        "prompt_tokens": 100,
        "cached_tokens": 40,
        "completion_tokens": 20,
        "received_tokens": 20,
        "reserved_tokens": 300,
        "queue_s": 0.01,
        "ttft_s": 0.2,
        "tpot_s": 0.02,
        "e2e_s": 0.6,
        "duration_s": 0.61,
        "attempts": (attempt(),),
    }
    return CallRecord(**(values | changes))


def attempt(**changes: Any) -> AttemptRecord:
    values: dict[str, Any] = {
        "number": 1,
        "replica": "r1",
        "dispatched_s": 0.01,
        "ended_s": 0.61,
        "queue_s": 0.01,
        "first_event_s": 0.15,
        "received_tokens": 20,
    }
    return AttemptRecord(**(values | changes))


def opening(call_id: str = "call-1", **changes: Any) -> Opening:
    values: dict[str, Any] = {
        "call_id": call_id,
        "tenant": "acme",
        "key_id": "k1234567",
        "pool": "sim-pool",
        "klass": PriorityClass.STANDARD,
        "endpoint": "chat/completions",
        "model": "sim",
        "stream": True,
        "arrived_at": ARRIVED_AT,
        "prompt_tokens": 100,
        "reserved_tokens": 300,
        "demands": ((("org:acme", "tpm", "*", "*", ""), 300.0),),
    }
    return Opening(**(values | changes))
