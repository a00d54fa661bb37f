"""One tenant in one fair queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.core.queues.lane import Lane

if TYPE_CHECKING:
    from gateway.core.queues.line import Line


class Flow:
    """``tag`` is F_f; ``held`` counts what forbids to forget it besides waiting calls. ``is_new``:
    it was lifted when its calls came, and none of them was dispatched since."""

    __slots__ = ("held", "is_new", "lines", "parked", "tag", "tenant")

    def __init__(self, tenant: str, tag: float = 0.0) -> None:
        self.tenant = tenant
        self.tag = tag
        self.held = 0
        self.is_new = False
        self.lines: dict[Lane, Line] = {}
        self.parked = False  # has an entry among the idle ones
