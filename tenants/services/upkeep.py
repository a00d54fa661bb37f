"""What has to happen from time to time: credit expires, the ledger is kept only so long.

A periodic task calls both about once a minute. Each may run twice or late: what is not due stays.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings
from django.utils import timezone

from tenants.actors import Actor
from tenants.selectors.credit import accounts_with_due_grants
from tenants.services import credit, ledger


def expire_credit(*, actor: Actor, now: datetime | None = None) -> int:
    """One transaction and one audit row for each account; returns how many."""
    at = now or timezone.now()
    entries = [
        credit.expire_due(slug=slug, actor=actor, now=at) for slug in accounts_with_due_grants(at)
    ]
    return sum(entry is not None for entry in entries)


def purge_ledger(*, now: datetime | None = None) -> int:
    """Deletes at most 5,000 calls that are older than they are kept, so that no lock lasts."""
    kept = timedelta(days=settings.FAIRWAY_TENANTS.ledger_days)
    return ledger.purge(before=(now or timezone.now()) - kept)
