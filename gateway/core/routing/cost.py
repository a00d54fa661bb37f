"""What does it cost to run a call on a replica? Seconds until its first token, about, and what it
takes from the others.

  waiting   uncached prompt tokens before it / R_peak
  own       its own uncached prompt tokens / R_peak
  memory    0.15 s * k / (1 - k), k = tokens in flight / KV memory, at most 0.98: nothing at low
            use, beyond every queue near the end, where the engine would preempt
"""

from __future__ import annotations

from gateway.core.routing.replica import Replica

MEMORY_S = 0.15
FULLEST_RATIO = 0.98


def memory_s(replica: Replica) -> float:
    ratio = min(FULLEST_RATIO, replica.in_flight_tokens / max(1, replica.config.kv_tokens))
    return MEMORY_S * ratio / (1 - ratio)


def prompt_s(replica: Replica, tokens: float) -> float:
    return tokens / replica.peak.tps
