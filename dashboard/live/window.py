"""What happened in the last minutes, per tenant?

Seconds arrive in order and are merged into slices of ``SLICE_S`` seconds that hold counts and a
mergeable sketch of TTFT (relative error 1 %), so that a percentile of any run of slices is the
percentile of its calls, never a mean of percentiles. Memory is bounded: ``history_s / SLICE_S``
slices per tenant, a tenant without a slice in the window is forgotten.

Times are Unix seconds as the summaries carry them; TTFT in seconds.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ddsketch import DDSketch

from gateway.core.events import TenantSecond
from gateway.core.reasons import Reason

SLICE_S = 10
NOW_S = 3.0  # the share received now: short, so that a changed weight is seen within two seconds
SHARE_S = 10.0  # the share beside it, steadier
SKETCH_ACCURACY = 0.01


COUNTS = (
    *("calls", "completed", "shed", "limited", "failed", "judged", "within_objective"),
    *("prompt_tokens", "cached_tokens", "completion_tokens", "service_cost"),
)  # fields that a second, and a slice, adds to a slice


@dataclass(slots=True)
class Slice:
    """Sums of the seconds in [started_at, started_at + SLICE_S)."""

    started_at: float
    calls: int = 0
    completed: int = 0
    shed: int = 0
    limited: int = 0
    failed: int = 0
    judged: int = 0
    within_objective: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    service_cost: float = 0.0
    reasons: Counter[Reason] = field(default_factory=Counter)
    ttft_s: DDSketch = field(default_factory=lambda: DDSketch(SKETCH_ACCURACY))

    def add(self, second: TenantSecond) -> None:
        self._sum(second)
        for value in second.ttft_s:
            self.ttft_s.add(value)

    def merge(self, other: Slice) -> None:
        self._sum(other)
        self.ttft_s.merge(other.ttft_s)

    def _sum(self, other: TenantSecond | Slice) -> None:
        for name in COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.reasons.update(other.reasons)


def merged(slices: Iterable[Slice]) -> Slice:
    total = Slice(started_at=0.0)
    for part in slices:
        total.merge(part)
    return total


@dataclass(slots=True)
class TenantWindow:
    """One tenant's slices, oldest first, and its last seconds for the share it receives now."""

    slices: deque[Slice]
    costs: deque[tuple[float, float]] = field(default_factory=deque)  # (at, service cost)
    queued: int = 0
    in_flight: int = 0
    entitled_slots: float = 0.0
    seen_at: float = 0.0

    def add(self, at: float, second: TenantSecond) -> None:
        started_at = at - at % SLICE_S
        if not self.slices or self.slices[-1].started_at < started_at:
            self.slices.append(Slice(started_at))
        self.slices[-1].add(second)
        self.costs.append((at, second.service_cost))
        self.queued, self.in_flight, self.seen_at = second.queued, second.in_flight, at
        self.entitled_slots = second.entitled_slots

    def forget(self, now_at: float, history_s: float) -> None:
        while self.slices and self.slices[0].started_at < now_at - history_s:
            self.slices.popleft()
        while self.costs and self.costs[0][0] <= now_at - SHARE_S:
            self.costs.popleft()
        if self.seen_at < now_at:
            self.queued = self.in_flight = 0
            self.entitled_slots = 0.0

    def since(self, at: float) -> Slice:
        return merged(part for part in self.slices if part.started_at >= at)

    def cost(self, since: float) -> float:
        """Delivered after ``since``, at most SHARE_S ago; a correction may take back more."""
        return max(0.0, sum(cost for at, cost in self.costs if at > since))

    @property
    def is_active(self) -> bool:
        """Asked for service in the last seconds: counts when shares are compared."""
        return bool(self.queued or self.in_flight or any(cost for _, cost in self.costs))


class Window:
    """The windows of all tenants. A tenant that a second does not name had an empty second."""

    def __init__(self, history_s: int) -> None:
        self.history_s = history_s
        self._tenants: dict[str, TenantWindow] = {}

    def add(self, at: float, seconds: Iterable[TenantSecond]) -> None:
        for second in seconds:
            self._of(second.tenant).add(at, second)
        for slug, window in list(self._tenants.items()):
            window.forget(at, self.history_s)
            if not window.slices:
                del self._tenants[slug]

    def _of(self, slug: str) -> TenantWindow:
        if slug not in self._tenants:
            length = self.history_s // SLICE_S + 1
            self._tenants[slug] = TenantWindow(deque(maxlen=length))
        return self._tenants[slug]

    @property
    def tenants(self) -> Mapping[str, TenantWindow]:
        return self._tenants

    def active(self) -> Iterator[str]:
        return (slug for slug, window in self._tenants.items() if window.is_active)
