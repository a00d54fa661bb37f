"""Which conversations are going on?

A caller in the middle of a conversation loses more by a refusal than one that begins (FairServe:
never refuse a follow-up turn). A conversation goes on for five minutes after a call of it was
dispatched. Bounded: the ``MOST`` that were served last. Times are monotonic seconds.
"""

from __future__ import annotations

from collections import OrderedDict

from gateway.core.dispatch.effects import Ticket

GOES_ON_S = 300.0
MOST = 20_000


class Conversations:
    def __init__(self) -> None:
        self._served_s: OrderedDict[tuple[str, int], float] = OrderedDict()

    def served(self, ticket: Ticket, now_s: float) -> None:
        if ticket.conversation:
            key = (ticket.tenant, ticket.conversation)
            self._served_s[key] = now_s
            self._served_s.move_to_end(key)
            if len(self._served_s) > MOST:
                self._served_s.popitem(last=False)

    def goes_on(self, ticket: Ticket, now_s: float) -> bool:
        served_s = self._served_s.get((ticket.tenant, ticket.conversation))
        return served_s is not None and now_s - served_s <= GOES_ON_S
