"""What a call asks of its buckets, and what a store answers.

Life of quota: reserve -> settle | abandon. All demands of a call are met in one atomic step, or
none is. A store keeps, per bucket, what is used and what is held by calls that have not ended.

Kinds:
  RATE    continuous refill ``capacity / window_s`` per second, burst ``capacity``; what is used
          drains; settling more than was reserved leaves a debt that refill pays off.
  BUDGET  a total for a period that is named in the key; never refills; hard (no debt beyond one
          estimate error). Used for day, month and credit.
  LEVEL   what is held now: concurrent calls, enqueued tokens; released at settle, expires with
          its lease.

Keys, demands and states are msgspec structs because several of each are made per call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import msgspec

from gateway.core.reasons import Reason


class Kind(StrEnum):
    RATE = "rate"
    BUDGET = "budget"
    LEVEL = "level"


class BucketKey(msgspec.Struct, frozen=True, gc=False):
    """Names one bucket. ``owner`` is ``org:<slug>`` or ``key:<slug>/<id>``; ``pool`` and ``klass``
    may be ``*``; ``period`` is ``2026-11-30`` for days, ``2026-11`` for months, else empty."""

    owner: str
    meter: str  # tpm itpm otpm rpm concurrent day month enqueued credit
    pool: str = "*"
    klass: str = "*"
    period: str = ""

    @property
    def tenant(self) -> str:
        """The slug whose buckets are changed in one atomic step."""
        return tenant_of_owner(self.owner)

    def __str__(self) -> str:
        return f"{self.owner}|{self.pool}|{self.klass}|{self.meter}|{self.period}"


def tenant_of_owner(owner: str) -> str:
    return owner.partition(":")[2].partition("/")[0]


class Demand(msgspec.Struct, frozen=True, gc=False):
    """``amount`` <= ``capacity`` always (the caller has refused what can never fit)."""

    key: BucketKey
    kind: Kind
    reason: Reason  # what the refusal is called
    capacity: float
    amount: float
    window_s: float = 60.0  # RATE: time to refill from empty
    resets_in_s: float = 60.0  # BUDGET: wall-clock seconds until its period ends
    fails_closed: bool = True  # BUDGET: refuses while the shared store is lost, else a local share


class BucketState(msgspec.Struct, frozen=True, gc=False):
    """One bucket after the step, for headers and pages."""

    key: BucketKey
    limit: float
    used: float  # RATE: settled and not drained yet; BUDGET: settled; LEVEL: 0
    held: float  # by calls that have not ended; RATE: the undrained part of that
    full_again_s: float  # RATE: until empty of use; BUDGET: until the period ends; LEVEL: 0

    @property
    def remaining(self) -> float:
        return max(0.0, self.limit - self.used - self.held)


@dataclass(frozen=True, slots=True)
class Reservation:
    call_id: str
    buckets: tuple[BucketState, ...]
    degraded: bool = False  # granted from a local share while the shared store was lost


@dataclass(frozen=True, slots=True)
class Refused:
    """The demand that could not be met. ``wait_s`` > 0: until it is affordable if nothing
    else comes. Of several that could not be met, the one with the longest wait."""

    demand: Demand
    limit: float
    used: float  # used and held
    needed: float
    wait_s: float
    degraded: bool = False


class StoreUnavailable(Exception):
    """The shared store cannot answer and this demand fails closed (hard budgets)."""


class Done:
    """An awaitable for what is done already."""

    def __await__(self) -> Generator[None, None, None]:
        return
        yield


DONE = Done()


class QuotaStore(Protocol):
    """Memory and Redis form pass one conformance suite.

    ``reserve`` and ``settle`` are idempotent by call id: the same call reserved again gets the same
    reservation, a second settle changes nothing. No method waits more than 250 ms.
    """

    async def reserve(self, call_id: str, demands: tuple[Demand, ...]) -> Reservation | Refused:
        """Raises StoreUnavailable."""
        ...

    def settle(self, call_id: str, actual: Mapping[BucketKey, float] | None) -> Awaitable[None]:
        """Begins at once, whether or not it is awaited; what is asked later finds it done.
        ``actual`` per bucket replaces what was reserved; a bucket left out is charged nothing;
        None abandons (nothing is charged). LEVEL buckets are released whatever is said. A call
        whose lease expired, or that this store never saw, is charged all the same; a settled one
        is not. Never raises for either."""
        ...

    async def renew(self, call_ids: tuple[str, ...]) -> None:
        """Heartbeat: LEVEL leases of these calls live for another TTL (15 s)."""
        ...

    async def peek(self, demands: tuple[Demand, ...]) -> tuple[BucketState, ...]:
        """Reads buckets without touching them (amounts are ignored)."""
        ...

    async def seed(self, key: BucketKey, used: float) -> None:
        """A total known from elsewhere (the ledger): what is used is at least this. Repeating it
        changes nothing."""
        ...
