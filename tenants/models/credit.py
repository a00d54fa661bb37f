"""The credit account of an organization. Amounts are whole microcredits (10⁻⁶ credit).

Σ grants = charges + holds + balance + expired, where charges are net of refunds and holds live in
the quota store alone. In rows: granted + refunded + overdraft = charged + expired + Σ remaining.
"""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from tenants.models.organizations import Organization
from tenants.wording import TEXT_CHARACTERS


class CreditAccount(models.Model):
    """Running totals. ``overdraft`` is what was charged and no grant could cover yet."""

    organization = models.OneToOneField(
        Organization, on_delete=models.CASCADE, primary_key=True, related_name="credit"
    )
    granted = models.BigIntegerField(default=0)
    charged = models.BigIntegerField(default=0)
    refunded = models.BigIntegerField(default=0)
    expired = models.BigIntegerField(default=0)
    overdraft = models.BigIntegerField(default=0)

    class Meta:
        constraints = (
            models.CheckConstraint(
                name="credit_totals_not_negative",
                condition=models.Q(
                    granted__gte=0,
                    charged__gte=0,
                    refunded__gte=0,
                    expired__gte=0,
                    overdraft__gte=0,
                ),
            ),
            models.CheckConstraint(
                name="credit_refunds_within_charges",
                condition=models.Q(refunded__lte=models.F("charged")),
            ),
        )

    def __str__(self) -> str:
        return f"credit of {self.organization_id}"

    @property
    def limit(self) -> int:
        """What may be charged in all, ever: grants and refunds less what expired."""
        return self.granted + self.refunded - self.expired

    @property
    def unspent(self) -> int:
        """Balance and holds together; negative in overdraft."""
        return self.limit - self.charged


class GrantKind(models.TextChoices):
    PLAN = "plan"
    TOP_UP = "top_up"
    REFUND = "refund"


class CreditGrant(models.Model):
    """``remaining`` is what is neither consumed nor expired."""

    account = models.ForeignKey(CreditAccount, on_delete=models.CASCADE, related_name="grants")
    kind = models.CharField(max_length=8, choices=GrantKind.choices)
    amount = models.BigIntegerField()
    remaining = models.BigIntegerField()
    granted_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField(null=True, blank=True)
    why = models.CharField(max_length=TEXT_CHARACTERS)

    class Meta:
        ordering = ("granted_at", "id")
        indexes = (
            models.Index(
                name="credit_grant_due",
                fields=("expires_at",),
                condition=models.Q(remaining__gt=0),
            ),
        )
        constraints = (
            models.CheckConstraint(
                name="credit_grant_kind_known", condition=models.Q(kind__in=GrantKind.values)
            ),
            models.CheckConstraint(
                name="credit_grant_remaining_in_amount",
                condition=models.Q(
                    amount__gte=1, remaining__gte=0, remaining__lte=models.F("amount")
                ),
            ),
        )

    def __str__(self) -> str:
        return f"{self.kind} {self.amount}"
