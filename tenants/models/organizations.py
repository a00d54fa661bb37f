"""Organizations, which the rest of the product calls tenants."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from gateway.core.priority import PriorityClass
from tenants.bounds import WEIGHT_MAX, WEIGHT_MIN
from tenants.models.plans import Plan
from tenants.wording import NAME_CHARACTERS, SLUG_CHARACTERS, TEXT_CHARACTERS

CLASS_CHOICES = [(int(member), member.label) for member in PriorityClass]


class Organization(models.Model):
    """``slug`` never changes (a trigger refuses it): ledger rows, replicas and buckets name it.

    ``skeleton`` is unique, so that no two slugs look alike. ``version`` counts changes of this row
    and lets a writer state what it has seen.
    """

    slug = models.CharField(max_length=SLUG_CHARACTERS, unique=True)
    skeleton = models.CharField(max_length=SLUG_CHARACTERS, unique=True)
    name = models.CharField(max_length=NAME_CHARACTERS)
    plan = models.ForeignKey(Plan, on_delete=models.PROTECT, related_name="organizations")
    weight = models.FloatField()
    highest_class = models.SmallIntegerField(choices=CLASS_CHOICES)
    suspended_at = models.DateTimeField(null=True, blank=True)
    suspended_why = models.CharField(max_length=TEXT_CHARACTERS, blank=True)
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ("slug",)
        constraints = (
            models.CheckConstraint(
                name="organization_weight_in_bounds",
                condition=models.Q(weight__gte=WEIGHT_MIN, weight__lte=WEIGHT_MAX),
            ),
            models.CheckConstraint(
                name="organization_highest_class_known",
                condition=models.Q(highest_class__in=[int(c) for c in PriorityClass]),
            ),
            models.CheckConstraint(
                name="organization_slug_not_empty", condition=~models.Q(slug="")
            ),
        )

    def __str__(self) -> str:
        return self.slug

    @property
    def suspended(self) -> bool:
        return self.suspended_at is not None
