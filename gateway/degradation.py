"""Is one part of the gateway degraded, and has everybody been told? Says it once per change."""

from __future__ import annotations

from collections.abc import Callable

from gateway.core.clock import Clock
from gateway.core.events import Degraded, Event, Restored


class Degradation:
    """``publish`` may be called from the thread that reports."""

    def __init__(self, part: str, publish: Callable[[Event], None], clock: Clock) -> None:
        self.part = part
        self.why: str | None = None  # None: all is well
        self._publish = publish
        self._clock = clock

    def report(self, why: str | None) -> None:
        """``why`` in words, or None when the part works. A changed reason alone is not an event."""
        was, self.why = self.why, why
        if why is not None and was is None:
            self._publish(Degraded(at=self._clock.wall(), part=self.part, why=why))
        elif why is None and was is not None:
            self._publish(Restored(at=self._clock.wall(), part=self.part))
