"""Plausible rules that are wrong. Each differs from the fair queue in one rule, and each must fail
the scenario that the rule exists for."""

from __future__ import annotations

from collections.abc import Callable

from gateway.core.queues.call import CallQueue, Charge, QueuedCall
from gateway.core.queues.fair_queue import StartTimeFairQueue
from gateway.core.queues.fifo import FifoQueue
from gateway.core.queues.flow import Flow
from gateway.core.queues.line import Line


class NoLift(StartTimeFairQueue):
    """A tenant that was away catches up on what it did not use: least served first."""

    def _lift(self, flow: Flow) -> None:
        pass

    def _advance(self, tag: float) -> None:
        pass

    def _forget_if_idle(self, flow: Flow) -> None:
        pass


class LeastActiveTag(StartTimeFairQueue):
    """The virtual time is the least tag of the tenants with calls, as counter-based schedulers have
    it."""

    def _advance(self, tag: float) -> None:
        waiting = [flow.tag for flow in self._flows.values() if flow.lines]
        self._virtual_time = max(self._virtual_time, min(waiting, default=tag))


class _FinishTag:
    """In place of the flow of a line: its tag is that of the end of the first call."""

    def __init__(self, flow: Flow, line: Line, weight: float) -> None:
        self._flow, self._line, self._weight = flow, line, weight

    @property
    def tag(self) -> float:
        return self._flow.tag + self._line.head.cost / self._weight


class FinishTimeFair(StartTimeFairQueue):
    """Least finish tag first: a call is ordered behind its own size."""

    def _new_line(self, flow: Flow, call: QueuedCall) -> Line:
        line = super()._new_line(flow, call)
        line.flow = _FinishTag(flow, line, self._weights.get(flow.tenant, 1.0))  # type: ignore[assignment]
        return line


class NoCorrection(StartTimeFairQueue):
    """The estimate is final."""

    def correct(self, charge: Charge, cost: float) -> None:
        if charge.cost == 0.0:
            super().correct(charge, cost)


NAIVE_QUEUES: dict[str, Callable[[dict[str, float]], CallQueue]] = {
    "fifo": FifoQueue,
    "no_lift": NoLift,
    "least_active_tag": LeastActiveTag,
    "finish_time_fair": FinishTimeFair,
    "no_correction": NoCorrection,
}
