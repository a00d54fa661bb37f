"""Plans: what a tenant gets unless its own limits say otherwise."""

from __future__ import annotations

from django.db import models

from gateway.core.priority import PriorityClass
from tenants.bounds import WEIGHT_MAX, WEIGHT_MIN
from tenants.wording import NAME_CHARACTERS, SLUG_CHARACTERS

CACHED_RATIOS = (0.0, 0.1, 1.0)


class OverLimit(models.TextChoices):
    """What happens to budgets while the quota store is lost."""

    STOP = "stop", "refuse calls"
    DEGRADE = "degrade", "keep a local share"


class Plan(models.Model):
    """``cached_ratio`` says how much of a cached input token counts against quota."""

    slug = models.CharField(max_length=SLUG_CHARACTERS, unique=True)
    name = models.CharField(max_length=NAME_CHARACTERS)
    weight = models.FloatField(default=1.0)
    highest_class = models.SmallIntegerField(default=int(PriorityClass.INTERACTIVE))
    cached_ratio = models.FloatField(default=0.1)
    over_limit = models.CharField(
        max_length=8, choices=OverLimit.choices, default=OverLimit.DEGRADE
    )

    class Meta:
        ordering = ("slug",)
        constraints = (
            models.CheckConstraint(
                name="plan_weight_in_bounds",
                condition=models.Q(weight__gte=WEIGHT_MIN, weight__lte=WEIGHT_MAX),
            ),
            models.CheckConstraint(
                name="plan_highest_class_known",
                condition=models.Q(highest_class__in=[int(c) for c in PriorityClass]),
            ),
            models.CheckConstraint(
                name="plan_cached_ratio_known",
                condition=models.Q(cached_ratio__in=CACHED_RATIOS),
            ),
            models.CheckConstraint(
                name="plan_over_limit_known",
                condition=models.Q(over_limit__in=OverLimit.values),
            ),
        )

    def __str__(self) -> str:
        return self.slug
