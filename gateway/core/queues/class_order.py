"""Which class goes next?

Strict order, interactive before standard before batch, with two exceptions that keep a lower class
from starving for ever:

  batch_share  while a batch call waits, a twentieth of the service that is dispatched is batch's:
               each other dispatch owes it a 19th of its cost, and the head of batch goes once its
               own cost is owed. With calls of equal cost that is every 20th dispatch
  aged         a standard head that has waited 30 s, or a batch head that has waited 120 s, competes
               as interactive; at most a tenth of the service goes this way, to the oldest such
               head: after one, the next may go once nine times its cost went to others

Service is counted, not dispatches, since what lives long collects: with one of 20 *dispatches*,
batch calls of 1,000 tokens beside interactive calls of 50 hold most slots after a minute, and the
interactive calls received 37 % of what was theirs. A call that goes by ``batch_share`` is charged
what it really costs: what it takes above its estimate is owed back.

A *head* is the call that the fair queue of a class would dispatch next. Its age counts, not that of
the oldest call: an old call behind a newer head waits for its own tenant's share, not for its
class.

Classes that are held back (``holdback``) take part through the exceptions only.

Invariants: a dispatch goes to a class that has a head; batch with a head goes at the latest after
others were dispatched 19 times its cost, plus what it is behind with. Nothing is saved up: what is
owed is forgotten when batch no longer waits, or is served in its turn. The numbers are parameters
of the pool. Times are monotonic seconds, costs service tokens. It knows classes and heads, neither
flows nor replicas.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Protocol

import msgspec

from gateway.core.dispatch.effects import PoolConfig
from gateway.core.priority import CLASSES, PriorityClass
from gateway.core.queues.call import QueuedCall

ROUNDING = 1e-6  # of sums of costs
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
    before: QueuedCall | None = None  # whose turn it was, if it is not this one's


class ClassOrder:
    def __init__(self, config: PoolConfig) -> None:
        self.config = config
        self._owed = 0.0  # to batch; below 0: it took more than was owed
        self._aged_debt = 0.0  # to others, before the next aged head may go

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

    def is_plain(self, klass: PriorityClass) -> bool:
        """No exception applies to a call that comes while nothing waits: it goes in strict
        order."""
        every = self.config.batch_every
        if klass is PriorityClass.BATCH and (every == 1 or (every > 1 and self._owed > 0)):
            return False
        return self.config.aged_after_s[klass] > 0

    def dispatched(self, choice: Choice, *, batch_waits: bool) -> None:
        """``batch_waits``: a batch call still waits after this dispatch."""
        cost, others = choice.call.cost, max(1, self.config.batch_every - 1)
        if choice.rule == "batch_share":
            self._owed -= cost
        elif choice.call.ticket.klass is PriorityClass.BATCH:
            self._owed = 0.0
        elif batch_waits:
            self._owed += cost / others
        if not batch_waits:
            self._owed = min(0.0, self._owed)
        if choice.rule == "aged":
            self._aged_debt = cost * (self.config.aged_every - 1)
        else:
            self._aged_debt -= cost

    def corrected(self, more: float) -> None:
        """A call that went by ``batch_share`` costs so much more than it was charged."""
        self._owed -= more

    def _batch_due(self, heads: Heads) -> QueuedCall | None:
        every = self.config.batch_every
        if every <= 0 or (every > 1 and self._owed <= 0):
            return None
        head = heads.get(PriorityClass.BATCH)
        due = head is not None and (every == 1 or head.cost <= self._owed + ROUNDING)
        return head if due else None

    def _oldest_aged(self, heads: Heads, now_s: float) -> QueuedCall | None:
        if self.config.aged_every <= 0 or self._aged_debt > ROUNDING:
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
