"""Which class goes next?

Strict order, interactive before standard before batch, with two exceptions that keep a lower class
from starving for ever:

  batch_share  while a batch call waits, every 20th dispatch is batch's
  aged         a standard head that has waited 30 s, or a batch head that has waited 120 s, competes
               as interactive; at most one of 10 dispatches goes this way, to the oldest such head

A *head* is the call that the fair queue of a class would dispatch next. Its age counts, not that of
the oldest call: an old call behind a newer head waits for its own tenant's share, not for its
class.

Classes that are held back (``holdback``) take part through the exceptions only.

Invariants: a dispatch goes to a class that has a head; after 19 dispatches to others while batch
had a head, the next is batch's; between two ``aged`` dispatches lie at least 9 others. The numbers
are parameters of the pool.
Times are monotonic seconds. It knows classes and heads, neither flows nor replicas.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Protocol

import msgspec

from gateway.core.dispatch.effects import PoolConfig
from gateway.core.priority import CLASSES, PriorityClass
from gateway.core.queues.call import QueuedCall

_MAY_AGE = (PriorityClass.STANDARD, PriorityClass.BATCH)


class Heads(Protocol):
    """Of the classes that have one. Asked for one class only when it matters."""

    def get(self, klass: PriorityClass, /) -> QueuedCall | None: ...

    def oldest_s(self, klass: PriorityClass) -> float | None:
        """Since when a call of the class has waited; its head is not older."""
        ...


class Choice(msgspec.Struct, frozen=True):
    call: QueuedCall
    rule: str  # strict, batch_share, aged


class ClassOrder:
    def __init__(self, config: PoolConfig) -> None:
        self.config = config
        self._others_while_batch_waited = 0
        self._since_aged = config.aged_every  # the first aged head need not wait

    def choose(
        self, heads: Heads, now_s: float, held: Set[PriorityClass] = frozenset()
    ) -> Choice | None:
        """Changes nothing: the caller reports the dispatch. ``held``: classes held back."""
        if (batch := self._batch_due(heads)) is not None:
            return Choice(batch, "batch_share")
        aged = self._oldest_aged(heads, now_s)
        if aged is not None:
            return Choice(aged, "aged")
        for klass in CLASSES:
            if klass not in held and (head := heads.get(klass)) is not None:
                return Choice(head, "strict")
        return None

    def dispatched(self, choice: Choice, *, batch_waits: bool) -> None:
        """``batch_waits``: a batch call still waits after this dispatch."""
        if choice.call.ticket.klass is PriorityClass.BATCH or not batch_waits:
            self._others_while_batch_waited = 0
        else:
            self._others_while_batch_waited += 1
        self._since_aged = 0 if choice.rule == "aged" else self._since_aged + 1

    def _batch_due(self, heads: Heads) -> QueuedCall | None:
        every = self.config.batch_every
        due = every > 0 and self._others_while_batch_waited >= every - 1
        return heads.get(PriorityClass.BATCH) if due else None

    def _oldest_aged(self, heads: Heads, now_s: float) -> QueuedCall | None:
        every = self.config.aged_every
        if every <= 0 or self._since_aged < every - 1:
            return None
        aged: QueuedCall | None = None
        for klass in _MAY_AGE:
            before_s = now_s - self.config.aged_after_s[klass]
            oldest_s = heads.oldest_s(klass)
            if oldest_s is None or oldest_s > before_s:
                continue
            head = heads.get(klass)
            if head is None or head.queued_s > before_s:
                continue
            if aged is None or head.queued_s < aged.queued_s:
                aged = head
        return aged
