"""The plans of a new database. Every limit is finite; an operator may change all of it later."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gateway.core.limits.limit import ONLINE, Limit
from gateway.core.priority import PriorityClass
from tenants.models.limits import LimitRow

_BATCH = PriorityClass.BATCH.label


@dataclass(frozen=True, slots=True)
class DefaultPlan:
    slug: str
    name: str
    weight: float
    limits: tuple[Limit, ...]


DEFAULT_PLANS = (
    DefaultPlan(
        "free",
        "Free",
        1.0,
        (
            Limit("tpm", 20_000, klass=ONLINE),
            Limit("rpm", 60, klass=ONLINE),
            Limit("concurrent", 8, klass=ONLINE),
            Limit("day", 2_000_000, klass=_BATCH),
            Limit("month", 20_000_000, klass=_BATCH),
            Limit("enqueued", 500_000, klass=_BATCH),
        ),
    ),
    DefaultPlan(
        "team",
        "Team",
        2.0,
        (
            Limit("tpm", 200_000, klass=ONLINE),
            Limit("rpm", 600, klass=ONLINE),
            Limit("concurrent", 40, klass=ONLINE),
            Limit("day", 20_000_000, klass=_BATCH),
            Limit("month", 200_000_000, klass=_BATCH),
            Limit("enqueued", 5_000_000, klass=_BATCH),
        ),
    ),
    DefaultPlan(
        "enterprise",
        "Enterprise",
        8.0,
        (
            Limit("tpm", 2_000_000, klass=ONLINE),
            Limit("rpm", 6_000, klass=ONLINE),
            Limit("concurrent", 400, klass=ONLINE),
            Limit("day", 200_000_000, klass=_BATCH),
            Limit("month", 4_000_000_000, klass=_BATCH),
            Limit("enqueued", 50_000_000, klass=_BATCH),
        ),
    ),
)


def seed(plan_model: Any, limit_model: Any) -> None:
    """Adds the plans that are absent. Takes the models, so that a migration can pass its own."""
    for default in DEFAULT_PLANS:
        plan, created = plan_model.objects.get_or_create(
            slug=default.slug,
            defaults={
                "name": default.name,
                "weight": default.weight,
                "highest_class": int(PriorityClass.INTERACTIVE),
                "cached_ratio": 0.1,
                "over_limit": "degrade",
            },
        )
        if created:
            limit_model.objects.bulk_create(
                limit_model(plan=plan, **LimitRow.columns(limit)) for limit in default.limits
            )
