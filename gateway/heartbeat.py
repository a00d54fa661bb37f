"""What happens once a second beside the calls? The gateway's own pulse.

Every second: loop lag is measured, what may have failed silently is looked at (database, ledger),
and the one-second summary is published. Every fifth second the leases of running calls are renewed
(they live 15 s, so that a crashed process frees them).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from gateway.core.clock import Clock

PERIOD_S = 1.0
RENEW_EVERY = 5  # periods


@dataclass(frozen=True, slots=True)
class Pulse:
    """Called on the loop; only ``renew`` may wait."""

    lag: Callable[[float], None]
    watch: Callable[[], None]
    summarise: Callable[[], None]
    renew: Callable[[], Awaitable[None]]


class Heartbeat:
    """``lag_s``: how late the loop was at the last beat, seconds."""

    def __init__(self, pulse: Pulse, clock: Clock) -> None:
        self._pulse = pulse
        self._clock = clock
        self.lag_s = 0.0

    async def run(self) -> None:
        beats = 0
        due_s = self._clock.monotonic() + PERIOD_S
        while True:
            await asyncio.sleep(max(0.0, due_s - self._clock.monotonic()))
            now_s = self._clock.monotonic()
            self.lag_s = max(0.0, now_s - due_s)
            self._pulse.lag(self.lag_s)
            self._pulse.watch()
            self._pulse.summarise()
            beats += 1
            if beats % RENEW_EVERY == 0:
                await self._pulse.renew()
            due_s = max(due_s, now_s) + PERIOD_S
