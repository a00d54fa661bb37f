"""Which classes must wait although a slot is free?

Strict order alone lets lower classes fill every slot in the moment before an interactive call
comes, which then waits for one of them to end. So some slots are held back from them: while a
higher class was queued or dispatched in the last 3 s,

  standard and batch together hold at most ceil(0.9 * slots) of the pool
  batch holds at most ceil(0.7 * slots)

  standard and batch leave free what ``reserve`` says, at most a tenth of the slots

(the first two: their own calls in flight on its replicas; interactive calls do not count, and
neither do calls that end on a replica which was removed; the third looks at interactive calls
only). When no higher class has been seen for 3 s, the lower ones may have everything. The
exceptions of ``class_order`` (batch's twentieth, aged heads) pass the holdback: they are what keeps
a held class alive.

Invariants: interactive is never held; with one slot nobody is (ceil). Units: monotonic seconds.
Only the counts of the pool matter, not where the slots are.
"""

from __future__ import annotations

import math

from gateway.core.dispatch.effects import PoolConfig
from gateway.core.dispatch.reserve import Reserve
from gateway.core.priority import PriorityClass
from gateway.core.queues.load import QueueLoad

NEVER_S = -math.inf
NO_LIMIT = 10**9
NOBODY: frozenset[PriorityClass] = frozenset()
_STANDARD, _BATCH = (PriorityClass.STANDARD,), (PriorityClass.BATCH,)
_STANDARD_FIRST = _STANDARD + _BATCH
_FROM = {one: frozenset(each for each in PriorityClass if each >= one) for one in PriorityClass}
_ABOVE = {one: [each for each in PriorityClass if each < one] for one in PriorityClass}


class Holdback:
    def __init__(self, config: PoolConfig) -> None:
        self._reserve = Reserve()
        self._seen_s = dict.fromkeys(PriorityClass, NEVER_S)
        self._in_flight: dict[PriorityClass, set[int]] = {klass: set() for klass in PriorityClass}
        self._slots = 0
        self.configure(config)

    def configure(self, config: PoolConfig) -> None:
        self._config = config
        self.count_slots(self._slots)

    def count_slots(self, slots: int) -> None:
        """Of the replicas that admit calls."""
        self._slots = slots
        self._most = {
            klass: math.ceil(ratio * slots) if ratio < 1.0 else NO_LIMIT
            for klass, ratio in zip(PriorityClass, self._config.holdback_ratio, strict=True)
        }

    def seen(self, klass: PriorityClass, now_s: float) -> None:
        """A call of the class was queued or dispatched."""
        self._seen_s[klass] = now_s

    def dispatched(
        self, klass: PriorityClass, grant_id: int, now_s: float, waited_s: float
    ) -> None:
        self._seen_s[klass] = now_s
        self._in_flight[klass].add(grant_id)
        if klass is PriorityClass.INTERACTIVE:
            objective_s = self._config.ttft_objective_s[klass]
            most = max(0, self._slots - self._most[PriorityClass.STANDARD])
            self._reserve.waited(waited_s, objective_s, slots=self._slots, most=most)

    def ended(self, klass: PriorityClass, grant_id: int) -> None:
        """Or its replica was removed; a second end is none."""
        self._in_flight[klass].discard(grant_id)

    def held(self, load: QueueLoad, now_s: float) -> frozenset[PriorityClass]:
        """``load``: what waits."""
        for limited in self._at_limit():
            if self._until_s(limited, load) > now_s:
                return _FROM[limited]
        return NOBODY

    def is_full(self, load: QueueLoad, now_s: float) -> bool:
        """No slot is free but those that are kept for interactive calls."""
        return self._only_reserve and self._until_s(PriorityClass.STANDARD, load) > now_s

    def next_s(self, load: QueueLoad, now_s: float) -> float | None:
        """When a holdback of calls that wait ends by itself."""
        ends = [
            self._until_s(limited, load)
            for limited in self._at_limit()
            if any(load.by_class[one].calls for one in _FROM[limited])
        ]
        return min((end_s for end_s in ends if now_s < end_s < math.inf), default=None)

    def _at_limit(self) -> tuple[PriorityClass, ...]:
        """The classes that, together with those below them, have what they may have."""
        in_flight, most = self._in_flight, self._most
        batch = len(in_flight[PriorityClass.BATCH])
        lower = batch + len(in_flight[PriorityClass.STANDARD])
        if lower >= most[PriorityClass.STANDARD] or self._only_reserve:
            return _STANDARD_FIRST if batch >= most[PriorityClass.BATCH] else _STANDARD
        return _BATCH if batch >= most[PriorityClass.BATCH] else ()

    @property
    def _only_reserve(self) -> bool:
        kept = self._reserve.slots
        return kept > 0 and self._slots - sum(map(len, self._in_flight.values())) <= kept

    def _until_s(self, limited: PriorityClass, load: QueueLoad) -> float:
        """Infinite while a class above waits."""
        seen_s = NEVER_S
        for klass in _ABOVE[limited]:
            if load.by_class[klass].calls:
                return math.inf
            seen_s = max(seen_s, self._seen_s[klass])
        return seen_s + self._config.holdback_s
