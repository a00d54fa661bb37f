"""One tenant in one fair queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.core.queues.lane import Lane

if TYPE_CHECKING:
    from gateway.core.queues.line import Line


class Flow:
    """``tag`` is F_f; ``held`` counts what forbids to forget it besides waiting calls."""

    __slots__ = ("held", "lines", "parked", "tag", "tenant")

    def __init__(self, tenant: str, tag: float = 0.0) -> None:
        self.tenant = tenant
        self.tag = tag
        self.held = 0
        self.lines: dict[Lane, Line] = {}
        self.parked = False  # has an entry among the idle ones
