"""What a queue knows of a call that waits, and what a flow was charged for one that left.

Times are monotonic seconds. Costs are service tokens: input weighs 1, cached input 0.1, output 2.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import TYPE_CHECKING, Protocol

import msgspec

from gateway.core.dispatch.effects import Ticket
from gateway.core.queues.lane import Lane

if TYPE_CHECKING:
    from gateway.core.queues.locality import Liberty, Locality


class QueuedCall(msgspec.Struct, eq=False):
    """Compared by identity, never changed. Lower ``sequence`` goes first among equals; a call that
    asks again draws from a lower range than every first-time call. ``booked``: it returns at the
    time that it was told when it was refused. ``goes_first``: before the other calls of its flow,
    since it was admitted once, or promised a place. ``holder_key``: of its prompt."""

    ticket: Ticket
    lane: Lane
    sequence: int
    queued_s: float
    expires_s: float
    cost: float  # estimate
    booked: bool = False
    goes_first: bool = False
    holder_key: int = 0

    def __post_init__(self) -> None:
        ticket = self.ticket
        self.goes_first = self.booked or ticket.again
        self.holder_key = ticket.prefix.holder_key


class Charge(msgspec.Struct, eq=False):
    """What a flow carries for one call in flight. The weight is the one at dispatch, so that a
    refund takes back exactly what was charged, whatever the weight is now. ``flow``: the only one
    to which it applies, of a call of a higher class; None: whatever flow its tenant has now.
    ``start_tag`` and ``virtual_time``: before it, where the policy has such."""

    tenant: str
    weight: float
    cost: float
    flow: object | None = None
    start_tag: float | None = None
    virtual_time: float | None = None


class CallQueue(Protocol):
    """The calls of one class in one pool. Every policy passes one conformance suite.

    A tenant is *held* while it has calls in flight: what is known of it must not be forgotten.
    """

    def __len__(self) -> int: ...

    def push(self, call: QueuedCall) -> None: ...

    def discard(self, call: QueuedCall) -> None:
        """The call leaves without a slot. It must be in the queue."""
        ...

    def head(
        self, free: Set[str], passes_over: Callable[[QueuedCall], bool] | None = None
    ) -> QueuedCall | None:
        """The next call that a replica of ``free`` may run; it stays in the queue. The order goes
        past calls that ``passes_over`` names, unless it names them all."""
        ...

    def nearer(self, head: QueuedCall, locality: Locality) -> tuple[QueuedCall, Liberty]:
        """The call that goes in place of ``head`` because a free replica holds its prompt, and by
        which rule; ``head`` itself if there is none."""
        ...

    def dispatch(self, call: QueuedCall, before: QueuedCall | None = None) -> Charge:
        """The call leaves for a slot: its estimate is charged and its tenant is held. ``before``:
        the one whose turn it was."""
        ...

    def let_through(self, call: QueuedCall) -> Charge:
        """What ``push`` and ``dispatch`` do of a call that comes while nothing waits here."""
        ...

    def charge_from_above(self, tenant: str, cost: float) -> Charge | None:
        """A call of the tenant in a higher class was dispatched. None: the tenant has no calls
        here, queued or in flight, and is not charged."""
        ...

    def correct(self, charge: Charge, cost: float) -> None:
        """The call turned out to cost ``cost`` in all."""
        ...

    def hold(self, tenant: str) -> None: ...

    def let_go(self, tenant: str) -> None:
        """Ends one hold."""
        ...

    def set_weights(self, weights: dict[str, float]) -> None:
        """From now on. Absent = 1."""
        ...

    def widened(self, slugs: frozenset[str]) -> None:
        """These replicas can admit calls and could not before."""
        ...

    def lanes(self) -> dict[Lane, int]:
        """Calls that wait, per lane."""
        ...
