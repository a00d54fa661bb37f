"""Which calls were shed, limited or failed lately, and in which words were they told?

Equal incidents (tenant, class, reason, pool, replica) are one entry with a count, the words of the
newest, and how many other messages there were; messages that differ in numbers only count as one.
A caller that hung up is no incident. At most ``KEPT`` groups; the oldest give way.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gateway.core.priority import PriorityClass
from gateway.core.reasons import Outcome, Reason
from gateway.core.records import CallRecord

KEPT = 200
KEPT_WORDINGS = 50  # of one group
NO_INCIDENT = {Reason.CLIENT_GONE, Reason.CANCELLED}

_NUMBER = re.compile(r"\d[\d.,]*")
Group = tuple[str, PriorityClass | None, Reason, str, str]


@dataclass(frozen=True, slots=True)
class Incident:
    """``times`` counts what the summaries listed; a second lists at most 50 calls."""

    tenant: str
    klass: PriorityClass | None
    reason: Reason
    pool: str
    replica: str
    outcome: Outcome
    times: int
    first_at: float
    last_at: float
    call_id: str
    message: str
    retry_after_s: float | None
    wordings: frozenset[str] = frozenset()

    @property
    def others(self) -> int:
        """Messages that say something else than the newest."""
        return len(self.wordings) - 1

    @property
    def is_failure(self) -> bool:
        return self.outcome is Outcome.FAILED


class Incidents:
    def __init__(self, history_s: float) -> None:
        self._history_s = history_s
        self._groups: OrderedDict[Group, Incident] = OrderedDict()
        self.left_out = 0

    def add(self, at: float, records: Iterable[CallRecord]) -> None:
        for record in records:
            if record.reason is not None and record.reason not in NO_INCIDENT:
                self._count(at, record, record.reason)
        self._forget(at)

    def _forget(self, at: float) -> None:
        while self._groups and next(iter(self._groups.values())).last_at < at - self._history_s:
            self._groups.popitem(last=False)
        while len(self._groups) > KEPT:
            self._groups.popitem(last=False)

    def _count(self, at: float, record: CallRecord, reason: Reason) -> None:
        group = (record.tenant, record.klass, reason, record.pool, record.replica)
        known = self._groups.pop(group, None)
        self._groups[group] = Incident(
            *group,
            outcome=record.outcome,
            times=known.times + 1 if known else 1,
            first_at=known.first_at if known else at,
            last_at=at,
            call_id=record.call_id,
            message=record.message,
            retry_after_s=record.retry_after_s,
            wordings=_with(known.wordings if known else frozenset(), record.message),
        )

    def newest_first(self) -> Iterator[Incident]:
        return reversed(self._groups.values())


def _with(wordings: frozenset[str], message: str) -> frozenset[str]:
    return wordings | {_NUMBER.sub("#", message)} if len(wordings) < KEPT_WORDINGS else wordings
