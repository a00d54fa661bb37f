"""May a failed call try another replica?

Only while nothing has been relayed, only elsewhere, once (twice when no connection was made, so
that nothing was sent), within the pool's retry budget: a bucket of 10 that gains 0.1 per call and
loses 1 per retry, so that attempts <= 1.10 * calls + 10 whatever fails. A replica that is full is
not excluded: it gets no calls for a moment anyway, and the call may wait for it. This is the only
place that retries.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from gateway.core.dispatch.effects import Ticket
from gateway.core.errors import ReplicaFull, ReplicaUnreachable, UpstreamError
from gateway.core.health.retry_budget import RetryBudget
from gateway.core.reasons import Reason
from gateway.pipeline.call import Call

MOST_RETRIES = 1
MOST_RETRIES_UNSENT = 2


class Retries:
    def __init__(self) -> None:
        self._budgets: dict[str, RetryBudget] = {}

    def began(self, pool: str) -> None:
        """A call of this pool begins."""
        self._budget(pool).call_started()

    def again(self, ticket: Ticket, call: Call, failure: UpstreamError) -> Ticket:
        """The ticket for another attempt. Raises ``failure`` when there must be none."""
        unsent = isinstance(failure, ReplicaUnreachable)
        most = MOST_RETRIES_UNSENT if unsent else MOST_RETRIES
        failed = sum(attempt.reason is not Reason.PREEMPTED for attempt in call.attempts)
        if call.relayed or not failure.retryable or failed > most:
            raise failure
        if not self._budget(call.placed.route.pool.slug).try_spend():
            raise failure
        elsewhere = frozenset[str]() if isinstance(failure, ReplicaFull) else {call.replica}
        return msgspec.structs.replace(ticket, excluded=ticket.excluded | elsewhere, again=True)

    def keep(self, pools: Collection[str]) -> None:
        """Drops the budgets of pools that are no longer among these."""
        self._budgets = {slug: kept for slug, kept in self._budgets.items() if slug in pools}

    def _budget(self, pool: str) -> RetryBudget:
        budget = self._budgets.get(pool)
        if budget is None:
            budget = self._budgets[pool] = RetryBudget()
        return budget
