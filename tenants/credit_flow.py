"""Which grant pays a charge? The one that expires first, of those valid when the call arrived.

Pure arithmetic over whole microcredits. Conserved by every step:
granted + refunded + overdraft = charged + expired + Σ remaining.
What no valid grant covers is overdraft; the next grant or refund pays it first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime


@dataclass(slots=True)
class Purse:
    """One grant while it is being consumed. ``expires_at`` None: never."""

    grant_id: int
    remaining: int
    expires_at: datetime | None

    def valid_at(self, at: datetime) -> bool:
        return self.expires_at is None or at < self.expires_at


@dataclass(frozen=True, slots=True)
class Charge:
    """``amount`` microcredits of a call that arrived ``at``."""

    at: datetime
    amount: int


def consume(purses: list[Purse], charges: Iterable[Charge]) -> int:
    """Takes the charges out of the purses and returns the overdraft."""
    purses.sort(key=_soonest_first)
    overdraft = 0
    for charge in charges:
        open_amount = charge.amount
        for purse in purses:
            if open_amount == 0:
                break
            if purse.remaining and purse.valid_at(charge.at):
                taken = min(purse.remaining, open_amount)
                purse.remaining -= taken
                open_amount -= taken
        overdraft += open_amount
    return overdraft


def after_overdraft(amount: int, overdraft: int) -> tuple[int, int]:
    """What a new grant keeps, and the overdraft that is left."""
    paid = min(amount, overdraft)
    return amount - paid, overdraft - paid


def _soonest_first(purse: Purse) -> tuple[bool, float, int]:
    expiry = purse.expires_at
    return expiry is None, expiry.timestamp() if expiry else 0.0, purse.grant_id
