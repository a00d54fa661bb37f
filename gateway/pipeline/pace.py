"""How do thousands of calls end at once without holding the loop? A few in each of its turns.

Whoever leaves, is revoked or is drained leaves in a crowd: all connections of a proxy, all calls of
a key, all calls of the process. The end of one call takes a fraction of a millisecond; AT_ONCE of
them are begun in one turn of the loop, in the order in which they were asked for, and between two
turns everyone else is heard: probes, first tokens, the answers of the shared store.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

AT_ONCE: Final = 16


class Pace:
    """Belongs to the loop. What was added is called once, at the earliest in the next turn."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()

    def add(self, act: Callable[[], None]) -> None:
        """``act`` must not raise."""
        self._waiting.append(act)
        if len(self._waiting) == 1:
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        for _ in range(min(AT_ONCE, len(self._waiting))):
            self._waiting[0]()
            self._waiting.popleft()  # after it: what it adds does not ask for a second turn
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._turn)
