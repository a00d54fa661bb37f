"""One grant that has not been released: the slot it holds and what its flow was charged.

A lease refers to the replica object, not to its name, and is released exactly once.

While a stream runs its charge is max(estimate, what it has consumed so far): the part of an
estimate that is not used is given back at the end, since more tokens may come. Costs are service
tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gateway.core.cost import OUTPUT_WEIGHT, service_cost
from gateway.core.dispatch.effects import Ticket, Usage
from gateway.core.priority import PriorityClass
from gateway.core.queues.call import Charge, QueuedCall
from gateway.core.routing.replica import Replica


class Lease(msgspec.Struct, eq=False):
    """``ticket``: that of ``call``."""

    ticket: Ticket
    call: QueuedCall
    replica: Replica
    charge: Charge
    uncached_tokens: int = 0  # of its prompt, as predicted
    below: Sequence[tuple[PriorityClass, Charge]] = ()  # lower classes
    dispatched_s: float = 0.0
    unstarted_before: int = 0  # prompt tokens that had not begun when it was dispatched
    spared: bool = False  # batch's own share: never preempted
    is_above_least: bool = False  # batch beyond what batch is owed
    output_tokens: int = 0  # as far as told
    first_event_s: float | None = None

    @property
    def cost_of_output(self) -> float:
        """What has been done for it so far."""
        return service_cost(self.ticket.input_tokens, 0, self.output_tokens)

    def cost_so_far(self, output_tokens: int) -> float:
        """At least what is charged already."""
        return max(self.charge.cost, service_cost(self.ticket.input_tokens, 0, output_tokens))

    def final_cost(self, usage: Usage | None, *, refund: bool) -> float:
        """None: unknown, the charge stands. ``refund``: it failed before its first content."""
        if refund:
            return 0.0
        if usage is None:
            return self.charge.cost
        return service_cost(usage.input_tokens, usage.cached_tokens, usage.output_tokens)


def estimated_cost(ticket: Ticket) -> float:
    return ticket.input_tokens + OUTPUT_WEIGHT * ticket.output_tokens
