"""Policies that look at load alone, or at nothing: baselines, and what is right without caches.

Mitzenmacher, "The Power of Two Choices in Randomized Load Balancing" (1996): the less loaded of two
random replicas is nearly as good as the least loaded of all, and a crowd that sees the same old
numbers does not run to the same replica.
"""

from __future__ import annotations

from gateway.core.routing.scene import Pick, Scene


def least_inflight(scene: Scene) -> Pick:
    """Fewest tokens in flight."""
    return Pick(scene.least_loaded(scene.open), "least_load")


def round_robin(scene: Scene) -> Pick:
    """Granted longest ago; those never granted first, at random."""
    return Pick(scene.least(scene.open, lambda replica: replica.last_grant_id), "turn")


def power_of_two(scene: Scene) -> Pick:
    """The less loaded of two random ones."""
    two = scene.rng.sample(scene.open, 2) if len(scene.open) > 2 else scene.open
    chosen = scene.least_loaded(two)
    return Pick(chosen, "less_of_two", tuple(scene.candidate(replica) for replica in two))


def random_choice(scene: Scene) -> Pick:
    return Pick(scene.rng.choice(scene.open), "random")
