"""Policies of other routers, as baselines: how they weigh a warm cache against load.

Loads are this gateway's own counts; the originals read metrics that are 0.05 to 5 s old.
Sources: SGLang's cache-aware router; llm-d's endpoint picker (prefix, queue and KV scorers);
``longest_match`` is what remains of all of them when load is ignored.
"""

from __future__ import annotations

from gateway.core.routing.replica import Replica
from gateway.core.routing.scene import Pick, Scene

MATCH_RATIO = 0.3
APART_CALLS = 64
APART_RATIO = 1.5
PREFIX_WEIGHT, QUEUE_WEIGHT, KV_WEIGHT = 3.0, 2.0, 2.0


def threshold(scene: Scene) -> Pick:
    """Best match above 0.3 of the prompt, unless the loads differ by more than 64 calls and 1.5
    times; then, and without a match, the fewest calls."""
    calls = [replica.in_flight for replica in scene.open]
    apart = max(calls) - min(calls) > APART_CALLS and max(calls) > APART_RATIO * min(calls)
    if not apart:
        best = _longest(scene)
        if scene.matched_blocks(best) > MATCH_RATIO * max(1, len(scene.chain)):
            return Pick(best, "match", (scene.candidate(best),))
    chosen = scene.least(scene.open, lambda replica: replica.in_flight)
    return Pick(chosen, "imbalance" if apart else "no_match", (scene.candidate(chosen),))


def blend(scene: Scene) -> Pick:
    """Highest 3 * matched share + 2 * (1 - queue) + 2 * (1 - KV), each scaled to 0..1 among the
    open replicas."""
    queue = max(replica.unstarted for replica in scene.open) or 1

    def score(replica: Replica) -> float:
        match = scene.matched_blocks(replica) / max(1, len(scene.chain))
        kv = min(1.0, replica.in_flight_tokens / replica.config.kv_tokens)
        return (
            PREFIX_WEIGHT * match
            + QUEUE_WEIGHT * (1 - replica.unstarted / queue)
            + KV_WEIGHT * (1 - kv)
        )

    chosen = scene.least(scene.open, lambda replica: -score(replica))
    return Pick(chosen, "score", (scene.candidate(chosen, score(chosen)),))


def sticky(scene: Scene) -> Pick:
    """The best holder until it has a backlog of ``sticky_tokens`` unstarted prompt tokens."""
    holders = scene.holders()
    calm = [
        replica
        for replica in holders
        if replica.unstarted_prompt_tokens <= scene.known.sticky_tokens
    ]
    if calm:
        chosen = scene.least(calm, lambda replica: -scene.matched_blocks(replica))
        return Pick(chosen, "affinity", (scene.candidate(chosen),))
    chosen = scene.least_loaded(scene.open)
    return Pick(chosen, "backlog" if holders else "no_holder", (scene.candidate(chosen),))


def longest_match(scene: Scene) -> Pick:
    """Whatever the load."""
    chosen = _longest(scene)
    return Pick(chosen, "match", (scene.candidate(chosen),))


def _longest(scene: Scene) -> Replica:
    """Equal matches by load."""
    longest = max(map(scene.matched_blocks, scene.open))
    return scene.least_loaded(
        [replica for replica in scene.open if scene.matched_blocks(replica) == longest]
    )
