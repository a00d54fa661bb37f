"""Queue policies by the name that a pool's configuration uses."""

from __future__ import annotations

from collections.abc import Callable

from gateway.core.queues.call import CallQueue
from gateway.core.queues.fair_queue import StartTimeFairQueue
from gateway.core.queues.fifo import FifoQueue


def queue_policy(name: str) -> Callable[[dict[str, float]], CallQueue]:
    """Raises ValueError that lists the known names."""
    if name not in QUEUES:
        raise ValueError(f"unknown queue policy {name!r}; known: {', '.join(QUEUES)}")
    return QUEUES[name]


QUEUES: dict[str, Callable[[dict[str, float]], CallQueue]] = {
    "start_time_fair": StartTimeFairQueue,
    "fifo": FifoQueue,
}
