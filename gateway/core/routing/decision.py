"""Why did a call run where it ran? What one choice saw, as plain values.

``load_tokens``: in flight on the replica before the call, cached prompt tokens not counted.
``matched_tokens``: of this prompt, held there as far as the index knows. ``cost`` is what the
policy compared, in its own unit; None where it compared something else. ``slow_ratio``: how many
times longer than its peers the replica took lately; 1 = no longer, or not known. Written down for
every dispatch, kept for few.
"""

from __future__ import annotations

import msgspec


class Candidate(msgspec.Struct, frozen=True, gc=False):
    replica: str
    load_tokens: int
    matched_tokens: int = 0
    cost: float | None = None
    slow_ratio: float = 1.0


class Decision(msgspec.Struct, frozen=True):
    """``rule``: which of the policy's rules decided. ``best_cached_tokens``: what the best holder
    of the pool holds, wherever the call ran. The rest tells of the queue: tags are service tokens
    per unit of weight."""

    policy: str
    rule: str
    replica: str
    candidates: tuple[Candidate, ...] = ()
    open_replicas: int = 1
    mean_load_tokens: float | None = None
    bound_tokens: float | None = None
    predicted_cached_tokens: int = 0
    best_cached_tokens: int = 0
    waited_s: float = 0.0
    class_rule: str = ""  # see class_order
    liberty: str = ""  # see locality
    start_tag: float | None = None  # of its flow, before its charge
    virtual_time: float | None = None
    waiting_calls: int = 0  # of its class, itself included
