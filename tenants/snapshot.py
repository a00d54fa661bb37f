"""What does the hot path know of tenants and keys? Plain frozen values, read in one go.

``load`` reads the version before the rows: the rows may be newer than the version says, never
older, so that a poller that compares versions never keeps something stale. Nine queries whatever
the number of tenants. A key's class grant is never above its tenant's. What is left of a credit
grant counts until the moment it expires, whenever upkeep moves it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, cast

from django.db import connection
from django.db.models import Min, Sum
from django.utils import timezone

from gateway.core.limits.limit import Limit
from gateway.core.priority import PriorityClass
from tenants.models import (
    ApiKey,
    ConfigVersion,
    CreditAccount,
    CreditGrant,
    KeyLimit,
    Organization,
    OrganizationLimit,
    PlanLimit,
)
from tenants.models.limits import LimitRow

LimitValue = Limit


@dataclass(frozen=True, slots=True)
class TenantValue:
    """``credit_limit_microcredits``: grants and refunds less what expired; None = no account.

    ``credit_charged_microcredits`` is what the ledger has charged in all, for a store that has to
    start again. ``over_limit`` says what budgets do while the quota store is lost.
    """

    slug: str
    name: str
    weight: float
    highest_class: PriorityClass
    suspended: bool
    limits: tuple[LimitValue, ...]
    cached_ratio: float
    credit_limit_microcredits: int | None
    over_limit: Literal["stop", "degrade"]
    credit_charged_microcredits: int = 0
    plan: str = ""


@dataclass(frozen=True, slots=True)
class KeyValue:
    """``expires_at`` is Unix seconds; ``models`` None and no ``allowed_networks``: any."""

    key_id: str
    tenant: str
    digest: bytes = field(repr=False)
    scopes: frozenset[str]
    models: frozenset[str] | None
    highest_class: PriorityClass
    default_class: PriorityClass
    expires_at: float | None
    enabled: bool
    limits: tuple[LimitValue, ...]
    allowed_networks: tuple[str, ...]

    def live_at(self, at: float) -> bool:
        """Whether the key may be used at that Unix time."""
        return self.enabled and (self.expires_at is None or at < self.expires_at)


@dataclass(frozen=True, slots=True)
class TenancySnapshot:
    """``tenants`` by slug, ``keys`` by key id. ``stale_at``: Unix seconds at which the next grant
    of credit expires, and this must be read again although its version stays."""

    version: int
    tenants: Mapping[str, TenantValue]
    keys: Mapping[str, KeyValue]
    stale_at: float | None = None


_VERSION = f"SELECT version FROM {ConfigVersion._meta.db_table} WHERE id = 1"


def current_version() -> int:
    """One indexed read; 0 for a database that was never written. Asked several times a second by
    every process, so that building the query anew would be most of its cost."""
    with connection.cursor() as cursor:
        cursor.execute(_VERSION)
        found = cursor.fetchone()
    return int(found[0]) if found else 0


def load() -> TenancySnapshot:
    """Blocks on the database: call it in a thread."""
    version, now = current_version(), timezone.now()
    open_grants = CreditGrant.objects.filter(remaining__gt=0)
    next_expiry = open_grants.filter(expires_at__gt=now).aggregate(at=Min("expires_at"))["at"]
    due = open_grants.filter(expires_at__lte=now).values("account").annotate(due=Sum("remaining"))
    tenants = _tenants({row["account"]: row["due"] for row in due})
    stale_at = next_expiry.timestamp() if next_expiry else None
    return TenancySnapshot(version, tenants, _keys(tenants), stale_at)


def effective(plan: Iterable[Limit], own: Iterable[Limit]) -> tuple[Limit, ...]:
    """The plan's limits, each replaced by the organization's of the same meter, pool and class."""
    merged = {(limit.meter, limit.pool, limit.klass): limit for limit in plan}
    merged.update({(limit.meter, limit.pool, limit.klass): limit for limit in own})
    return tuple(merged[name] for name in sorted(merged))


def _tenants(due: Mapping[int, int]) -> dict[str, TenantValue]:
    """``due``: what grants that have expired still hold, by account."""
    of_plan = _limits(PlanLimit.objects.all(), "plan_id")
    of_organization = _limits(OrganizationLimit.objects.all(), "organization_id")
    accounts = CreditAccount.objects.in_bulk()
    return {
        row.slug: _tenant(
            row,
            effective(of_plan[row.plan_id], of_organization[row.pk]),
            accounts.get(row.pk),
            due.get(row.pk, 0),
        )
        for row in Organization.objects.select_related("plan")
    }


def _tenant(
    row: Organization, limits: tuple[Limit, ...], account: CreditAccount | None, due: int
) -> TenantValue:
    return TenantValue(
        slug=row.slug,
        name=row.name,
        weight=row.weight,
        highest_class=PriorityClass(row.highest_class),
        suspended=row.suspended,
        limits=limits,
        cached_ratio=row.plan.cached_ratio,
        credit_limit_microcredits=account.limit - due if account else None,
        over_limit=cast(Literal["stop", "degrade"], row.plan.over_limit),
        credit_charged_microcredits=account.charged if account else 0,
        plan=row.plan.slug,
    )


def _keys(tenants: Mapping[str, TenantValue]) -> dict[str, KeyValue]:
    of_key = _limits(KeyLimit.objects.all(), "key_id")
    rows = ApiKey.objects.select_related("organization")
    return {  # a tenant made after its tenants were read comes with the next version
        row.key_id: _key(row, tuple(of_key[row.pk]), tenant)
        for row in rows
        if (tenant := tenants.get(row.organization.slug))
    }


def _key(row: ApiKey, limits: tuple[Limit, ...], tenant: TenantValue) -> KeyValue:
    highest = PriorityClass(row.highest_class).clamped_to(tenant.highest_class)
    return KeyValue(
        key_id=row.key_id,
        tenant=tenant.slug,
        digest=bytes(row.digest),
        scopes=frozenset(row.scopes),
        models=frozenset(row.allowed_models) or None,
        highest_class=highest,
        default_class=PriorityClass(row.default_class).clamped_to(highest),
        expires_at=row.expires_at.timestamp() if row.expires_at else None,
        enabled=row.enabled,
        limits=limits,
        allowed_networks=tuple(row.allowed_networks),
    )


def _limits(rows: Iterable[LimitRow], owner: str) -> defaultdict[int, list[Limit]]:
    grouped: defaultdict[int, list[Limit]] = defaultdict(list)
    for row in rows:
        grouped[getattr(row, owner)].append(row.value())
    return grouped
