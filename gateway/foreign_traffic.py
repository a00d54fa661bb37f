"""Does somebody else send calls to a replica of ours?

The dispatchers compare what a replica says it runs with what was sent to it; a lasting difference
is told as ``degraded`` and ``restored`` events of the part ``foreign_traffic:<replica>``, since no
schedule of ours can then be fair or its limits true.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gateway.core.clock import Clock
from gateway.core.dispatch.effects import PoolView
from gateway.core.events import Event
from gateway.degradation import Degradation

WHY = "the replica has run more calls than were sent to it for 10 s"


class ForeignTraffic:
    def __init__(self, publish: Callable[[Event], None], clock: Clock) -> None:
        self._publish = publish
        self._clock = clock
        self._told: dict[str, Degradation] = {}

    def look(self, views: Mapping[str, PoolView]) -> None:
        """Once a second."""
        foreign = {slug for view in views.values() for slug in view.foreign_traffic}
        for slug in foreign - self._told.keys():
            part = f"foreign_traffic:{slug}"
            self._told[slug] = Degradation(part, self._publish, self._clock)
            self._told[slug].report(WHY)
        for slug in self._told.keys() - foreign:
            self._told.pop(slug).report(None)
