"""Writes of plans: create, change. Their limits are set by ``limits.set_plan_limit``."""

from __future__ import annotations

from tenants.actors import Actor
from tenants.bounds import clean_class, clean_weight
from tenants.errors import AlreadyExists, Invalid
from tenants.models import AuditEntry, OverLimit, Plan
from tenants.models.plans import CACHED_RATIOS
from tenants.selectors import organizations as select
from tenants.services import audit, versions
from tenants.services.transactions import transactional
from tenants.wording import clean_name, clean_slug

SHOWN = ("name", "weight", "highest_class", "cached_ratio", "over_limit")


@transactional
def create(
    *,
    slug: str,
    name: str,
    actor: Actor,
    weight: float = 1.0,
    highest_class: str = "interactive",
    cached_ratio: float = 0.1,
    over_limit: str = OverLimit.DEGRADE,
    why: str = "",
) -> Plan:
    versions.bump()
    if Plan.objects.filter(slug=clean_slug(slug)).exists():
        raise AlreadyExists(f"There is a plan {slug} already.", next_step="Choose another slug.")
    row = Plan.objects.create(
        slug=slug,
        name=clean_name(name),
        weight=clean_weight(weight),
        highest_class=clean_class(highest_class, field="highest_class"),
        cached_ratio=_clean_ratio(cached_ratio),
        over_limit=_clean_over_limit(over_limit),
    )
    _record("plan.create", row, None, actor, why)
    return row


@transactional
def change(
    *,
    slug: str,
    actor: Actor,
    why: str,
    name: str | None = None,
    cached_ratio: float | None = None,
    over_limit: str | None = None,
) -> AuditEntry:
    """What is None stays. A plan's weight and class are starting values of new tenants only."""
    versions.bump()
    row = select.plan(slug)
    before = _shown(row)
    if name is not None:
        row.name = clean_name(name)
    if cached_ratio is not None:
        row.cached_ratio = _clean_ratio(cached_ratio)
    if over_limit is not None:
        row.over_limit = _clean_over_limit(over_limit)
    row.save(update_fields=("name", "cached_ratio", "over_limit"))
    return _record("plan.change", row, before, actor, why)


def _record(
    action: str, row: Plan, before: dict[str, object] | None, actor: Actor, why: str
) -> AuditEntry:
    return audit.record(
        actor=actor,
        action=action,
        target=f"plan:{row.slug}",
        before=before,
        after=_shown(row),
        why=why,
    )


def _shown(row: Plan) -> dict[str, object]:
    return {name: getattr(row, name) for name in SHOWN}


def _clean_ratio(value: float) -> float:
    if value not in CACHED_RATIOS:
        known = ", ".join(f"{ratio:g}" for ratio in CACHED_RATIOS)
        raise Invalid(
            f"A cached ratio of {value} is not accepted.",
            next_step=f"Give one of {known}.",
            field="cached_ratio",
        )
    return value


def _clean_over_limit(value: str) -> str:
    if value not in OverLimit.values:
        raise Invalid(
            "over_limit is neither stop nor degrade.", next_step="Give one.", field="over_limit"
        )
    return value
