"""Reads of the credit account."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import QuerySet

from tenants.models import CreditAccount, CreditGrant
from tenants.selectors.organizations import organization


@dataclass(frozen=True, slots=True)
class CreditState:
    """Microcredits. granted = charged + holds + balance + expired, always; ``charged`` is net of
    refunds; ``balance`` is negative in overdraft."""

    granted: int
    charged: int
    holds: int
    balance: int
    expired: int
    refunded: int


def credit_of(slug: str, *, holds: int = 0) -> CreditState | None:
    """``holds`` is what the quota store holds for calls that have not ended. None: no account."""
    account = CreditAccount.objects.filter(organization=organization(slug)).first()
    if account is None:
        return None
    return CreditState(
        granted=account.granted,
        charged=account.charged - account.refunded,
        holds=holds,
        balance=account.unspent - holds,
        expired=account.expired,
        refunded=account.refunded,
    )


def grants_of(slug: str) -> QuerySet[CreditGrant]:
    """Newest first."""
    return CreditGrant.objects.filter(account__organization=organization(slug)).order_by("-id")


def accounts_with_due_grants(now: object) -> list[str]:
    """Slugs whose grants have something left to expire."""
    rows = CreditGrant.objects.filter(expires_at__lte=now, remaining__gt=0)
    return sorted(set(rows.values_list("account__organization__slug", flat=True)))
