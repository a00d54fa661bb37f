"""Which class goes next?

Strict order, interactive before standard before batch, with two exceptions that keep a lower class
from starving for ever:

  batch_share  while a batch call waits, every 20th dispatch is batch's
  aged         a standard head that has waited 30 s, or a batch head that has waited 120 s, competes
               as interactive; at most one of 10 dispatches goes this way, to the oldest such head

A *head* is the call that the fair queue of a class would dispatch next. Its age counts, not that of
the oldest call: an old call behind a newer head waits for its own tenant's share, not for its
class.

Invariants: a dispatch goes to a class that has a head; after 19 dispatches to others while batch
had a head, the next is batch's; between two ``aged`` dispatches lie at least 9 others.
Times are monotonic seconds. It knows classes and heads, neither flows nor replicas.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gateway.core.priority import PriorityClass
from gateway.core.queues.call import QueuedCall

BATCH_EVERY = 20
AGED_EVERY = 10
AGED_AFTER_S = {PriorityClass.STANDARD: 30.0, PriorityClass.BATCH: 120.0}

Heads = Mapping[PriorityClass, QueuedCall]  # only the classes that have one


@dataclass(frozen=True, slots=True)
class Choice:
    call: QueuedCall
    rule: str  # strict, batch_share, aged


class ClassOrder:
    def __init__(self) -> None:
        self._others_while_batch_waited = 0
        self._since_aged = AGED_EVERY  # the first aged head need not wait

    def choose(self, heads: Heads, now_s: float) -> Choice | None:
        """Changes nothing: the caller reports the dispatch."""
        if not heads:
            return None
        batch = heads.get(PriorityClass.BATCH)
        if batch is not None and self._others_while_batch_waited >= BATCH_EVERY - 1:
            return Choice(batch, "batch_share")
        aged = self._oldest_aged(heads, now_s)
        if aged is not None:
            return Choice(aged, "aged")
        return Choice(heads[min(heads)], "strict")

    def dispatched(self, choice: Choice, *, batch_waits: bool) -> None:
        """``batch_waits``: a batch call still waits after this dispatch."""
        if choice.call.ticket.klass is PriorityClass.BATCH or not batch_waits:
            self._others_while_batch_waited = 0
        else:
            self._others_while_batch_waited += 1
        self._since_aged = 0 if choice.rule == "aged" else self._since_aged + 1

    def _oldest_aged(self, heads: Heads, now_s: float) -> QueuedCall | None:
        if self._since_aged < AGED_EVERY - 1:
            return None
        aged = [
            heads[klass]
            for klass, limit_s in AGED_AFTER_S.items()
            if klass in heads and now_s - heads[klass].queued_s >= limit_s
        ]
        return min(aged, key=lambda call: call.queued_s, default=None)
