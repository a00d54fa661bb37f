"""Limits of plans, of organizations (each replaces the plan's of the same name) and of keys."""

from __future__ import annotations

from typing import Any

from django.db import models

from gateway.core.limits.limit import LIMIT_CLASSES, METERS, RATE_METERS, Limit
from tenants.bounds import AMOUNT_MAX
from tenants.models.keys import ApiKey
from tenants.models.organizations import Organization
from tenants.models.plans import Plan
from tenants.wording import SLUG_CHARACTERS

_NAME = ("meter", "pool", "klass")
_KNOWN = models.Q(meter__in=METERS, klass__in=LIMIT_CLASSES)
_BOUNDED = models.Q(amount__gte=1, amount__lte=AMOUNT_MAX) & (
    models.Q(burst__isnull=True)
    | models.Q(burst__gte=1, burst__lte=AMOUNT_MAX, meter__in=sorted(RATE_METERS))
)


class LimitRow(models.Model):
    """One limit; ``gateway.core.limits.limit`` says what the fields mean."""

    meter = models.CharField(max_length=12)
    pool = models.CharField(max_length=SLUG_CHARACTERS, default="*")
    klass = models.CharField(max_length=12, default="*")
    amount = models.BigIntegerField()
    burst = models.BigIntegerField(null=True, blank=True)

    class Meta:
        abstract = True

    @staticmethod
    def columns(limit: Limit) -> dict[str, Any]:
        """What a row of this limit holds, except its owner."""
        return {
            "meter": limit.meter,
            "pool": limit.pool,
            "klass": limit.klass,
            "amount": int(limit.amount),
            "burst": None if limit.burst is None else int(limit.burst),
        }

    def value(self) -> Limit:
        return Limit(self.meter, self.amount, self.pool, self.klass, self.burst)


class PlanLimit(LimitRow):
    plan = models.ForeignKey(Plan, on_delete=models.CASCADE, related_name="limits")

    class Meta:
        ordering = _NAME
        constraints = (
            models.UniqueConstraint(name="plan_limit_once", fields=("plan", *_NAME)),
            models.CheckConstraint(name="plan_limit_known", condition=_KNOWN),
            models.CheckConstraint(name="plan_limit_bounded", condition=_BOUNDED),
        )


class OrganizationLimit(LimitRow):
    organization = models.ForeignKey(Organization, on_delete=models.CASCADE, related_name="limits")

    class Meta:
        ordering = _NAME
        constraints = (
            models.UniqueConstraint(
                name="organization_limit_once", fields=("organization", *_NAME)
            ),
            models.CheckConstraint(name="organization_limit_known", condition=_KNOWN),
            models.CheckConstraint(name="organization_limit_bounded", condition=_BOUNDED),
        )


class KeyLimit(LimitRow):
    key = models.ForeignKey(ApiKey, on_delete=models.CASCADE, related_name="limits")

    class Meta:
        ordering = _NAME
        constraints = (
            models.UniqueConstraint(name="key_limit_once", fields=("key", *_NAME)),
            models.CheckConstraint(name="key_limit_known", condition=_KNOWN),
            models.CheckConstraint(name="key_limit_bounded", condition=_BOUNDED),
        )
