"""Writes of the credit account: grant, refund, expire, charge. Amounts are whole microcredits.

The row of the account is locked first, so that its writers take turns. Grants, refunds and expiry
change what the store may hold: each adds one to the configuration version and leaves one audit
row. Charges come from the ledger, in the transaction of its rows, and do neither.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from django.db.models import Sum
from django.utils import timezone

from tenants.actors import Actor
from tenants.bounds import clean_credit
from tenants.credit_flow import Charge, Purse, after_overdraft, consume
from tenants.errors import Invalid
from tenants.key_terms import clean_expiry
from tenants.models import AuditEntry, CreditAccount, CreditGrant, GrantKind
from tenants.selectors.organizations import organization
from tenants.services import audit, versions
from tenants.services.transactions import transactional
from tenants.wording import clean_text

_GRANTED_KINDS = (GrantKind.PLAN, GrantKind.TOP_UP)


@transactional
def grant(
    *,
    slug: str,
    amount_microcredits: int,
    actor: Actor,
    why: str,
    kind: str = GrantKind.TOP_UP,
    expires_at: datetime | None = None,
) -> AuditEntry:
    """Opens the account where there is none: from then on the tenant's calls draw on credit."""
    amount = clean_credit(amount_microcredits)
    if kind not in _GRANTED_KINDS:
        raise Invalid(
            "kind is neither plan nor top_up.", next_step="Use a refund to refund.", field="kind"
        )
    return _add(slug, amount, kind, clean_expiry(expires_at), actor, why)


@transactional
def refund(*, slug: str, amount_microcredits: int, actor: Actor, why: str) -> AuditEntry:
    """Takes charges back, at most what was charged and not refunded."""
    amount = clean_credit(amount_microcredits)
    return _add(slug, amount, GrantKind.REFUND, None, actor, why)


@transactional
def expire_due(*, slug: str, actor: Actor, now: datetime | None = None) -> AuditEntry | None:
    """Moves what is left of the tenant's expired grants; None where there is nothing to move."""
    due = CreditGrant.objects.filter(
        account__organization__slug=slug, expires_at__lte=now or timezone.now(), remaining__gt=0
    )
    if not due.exists():
        return None
    versions.bump()
    account = _locked(slug)
    before = _shown(account)
    account.expired += due.aggregate(total=Sum("remaining"))["total"] or 0
    due.update(remaining=0)
    account.save()
    return _record("credit.expire", slug, before, account, actor, "")


def charge(*, charges: Mapping[str, Sequence[Charge]]) -> None:
    """By tenant slug, inside the caller's transaction. Tenants without an account are free."""
    accounts = CreditAccount.objects.filter(organization__slug__in=charges)
    rows = accounts.select_related("organization").select_for_update(of=("self",)).order_by("pk")
    for account in rows:
        _charge(account, charges[account.organization.slug])


def _charge(account: CreditAccount, charges: Sequence[Charge]) -> None:
    open_grants = list(account.grants.filter(remaining__gt=0))
    purses = [Purse(row.pk, row.remaining, row.expires_at) for row in open_grants]
    account.overdraft += consume(purses, charges)
    account.charged += sum(one.amount for one in charges)
    account.save(update_fields=("overdraft", "charged"))
    remaining = {purse.grant_id: purse.remaining for purse in purses}
    changed = [row for row in open_grants if row.remaining != remaining[row.pk]]
    for row in changed:
        row.remaining = remaining[row.pk]
    CreditGrant.objects.bulk_update(changed, ("remaining",))


def _add(
    slug: str, amount: int, kind: str, expires_at: datetime | None, actor: Actor, why: str
) -> AuditEntry:
    versions.bump()
    account = _locked(slug)
    before = _shown(account)
    if kind == GrantKind.REFUND:
        _refuse_excess(account, amount)
        account.refunded += amount
    else:
        account.granted += amount
    remaining, account.overdraft = after_overdraft(amount, account.overdraft)
    account.save()
    account.grants.create(
        kind=kind, amount=amount, remaining=remaining, expires_at=expires_at, why=clean_text(why)
    )
    action = "credit.refund" if kind == GrantKind.REFUND else "credit.grant"
    return _record(action, slug, before, account, actor, why)


def _locked(slug: str) -> CreditAccount:
    account, _ = CreditAccount.objects.get_or_create(organization=organization(slug))
    return CreditAccount.objects.select_for_update().get(pk=account.pk)


def _refuse_excess(account: CreditAccount, amount: int) -> None:
    refundable = account.charged - account.refunded
    if amount > refundable:
        raise Invalid(
            f"Only {refundable} microcredits can be refunded.",
            next_step="Refund at most that.",
            field="amount_microcredits",
        )


def _shown(account: CreditAccount) -> dict[str, object]:
    names = ("granted", "charged", "refunded", "expired", "overdraft")
    return {name: getattr(account, name) for name in names}


def _record(
    action: str,
    slug: str,
    before: dict[str, object],
    account: CreditAccount,
    actor: Actor,
    why: str,
) -> AuditEntry:
    return audit.record(
        actor=actor,
        action=action,
        target=f"credit:{slug}",
        tenant=slug,
        before=before,
        after=_shown(account),
        why=why,
    )
