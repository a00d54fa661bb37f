"""Writes of organizations: create, rename, suspend, resume, plan, weight, highest class.

Keyword-only; each is one transaction, adds one to the configuration version and leaves one audit
row, unless it changed nothing. ``expected_version`` is the ``version`` that the caller has seen;
where the row has moved on, Stale says so and nothing is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from django.conf import settings
from django.db.models import F
from django.utils import timezone

from gateway.core.limits.limit import Limit
from gateway.core.priority import PriorityClass
from tenants.actors import Actor
from tenants.bounds import clean_class, clean_limit, clean_weight
from tenants.errors import AlreadyExists, Stale
from tenants.models import AuditEntry, Organization, OrganizationLimit
from tenants.selectors import organizations as select
from tenants.services import audit, versions
from tenants.services.transactions import transactional
from tenants.wording import clean_name, clean_slug, clean_text, skeleton, slug_of

SET_WEIGHT = "tenant.set_weight"
SET_HIGHEST_CLASS = "tenant.set_highest_class"


@transactional
def create(
    *,
    name: str,
    actor: Actor,
    slug: str | None = None,
    plan: str | None = None,
    weight: float | None = None,
    highest_class: str | None = None,
    limits: Sequence[Limit] = (),
    why: str = "",
) -> Organization:
    """``limits`` replace those of the plan. The slug comes from the name where none is given."""
    versions.bump()
    row = Organization(name=clean_name(name), plan=select.plan(plan or _default_plan()))
    row.slug = clean_slug(slug) if slug else slug_of(row.name)
    row.skeleton = skeleton(row.slug)
    row.weight = clean_weight(row.plan.weight if weight is None else weight)
    row.highest_class = clean_class(highest_class) if highest_class else row.plan.highest_class
    _refuse_look_alike(row)
    row.save(force_insert=True)
    OrganizationLimit.objects.bulk_create(
        OrganizationLimit(organization=row, **OrganizationLimit.columns(clean_limit(limit)))
        for limit in limits
    )
    audit.record(
        actor=actor,
        action="tenant.create",
        target=f"tenant:{row.slug}",
        tenant=row.slug,
        before=None,
        after=_shown(row, "name", "plan", "weight", "highest_class")
        | {"limits": [asdict(limit) for limit in limits]},
        why=why,
    )
    return row


@transactional
def rename(
    *, slug: str, name: str, actor: Actor, why: str = "", expected_version: int | None = None
) -> AuditEntry:
    return _change(slug, "tenant.rename", actor, why, expected_version, {"name": clean_name(name)})


@transactional
def set_plan(
    *, slug: str, plan: str, actor: Actor, why: str, expected_version: int | None = None
) -> AuditEntry:
    """The tenant's own weight, class and limits stay."""
    change = {"plan": select.plan(plan)}
    return _change(slug, "tenant.set_plan", actor, clean_text(why), expected_version, change)


@transactional
def set_weight(
    *,
    slug: str,
    weight: float,
    actor: Actor,
    why: str,
    expected_version: int | None = None,
    undoes: int | None = None,
) -> AuditEntry:
    change = {"weight": clean_weight(weight)}
    return _change(slug, SET_WEIGHT, actor, clean_text(why), expected_version, change, undoes)


@transactional
def set_highest_class(
    *,
    slug: str,
    highest_class: str | PriorityClass,
    actor: Actor,
    why: str,
    expected_version: int | None = None,
    undoes: int | None = None,
) -> AuditEntry:
    """Takes a class or its label."""
    label = highest_class.label if isinstance(highest_class, PriorityClass) else highest_class
    change = {"highest_class": clean_class(label, field="highest_class")}
    return _change(
        slug, SET_HIGHEST_CLASS, actor, clean_text(why), expected_version, change, undoes
    )


@transactional
def suspend(*, slug: str, actor: Actor, why: str) -> AuditEntry:
    """Every new call of the tenant is refused from the next snapshot on."""
    reason = clean_text(why)
    row = select.organization(slug)
    if row.suspended:
        raise AlreadyExists(f"{slug} is suspended already.", next_step="Resume it to change that.")
    change = {"suspended_at": timezone.now(), "suspended_why": reason}
    return _change(slug, "tenant.suspend", actor, reason, row.version, change)


@transactional
def resume(*, slug: str, actor: Actor, why: str = "") -> AuditEntry:
    row = select.organization(slug)
    if not row.suspended:
        raise AlreadyExists(f"{slug} is not suspended.", next_step="There is nothing to resume.")
    change = {"suspended_at": None, "suspended_why": ""}
    return _change(slug, "tenant.resume", actor, why, row.version, change)


def _change(
    slug: str,
    action: str,
    actor: Actor,
    why: str,
    expected_version: int | None,
    values: Mapping[str, object],
    undoes: int | None = None,
) -> AuditEntry:
    """Compare and set on the row's version."""
    versions.bump()
    row = select.organization(slug)
    unseen = expected_version is not None and expected_version != row.version
    before = _shown(row, *values)
    is_news = any(getattr(row, name) != value for name, value in values.items())
    if unseen or (is_news and not _compare_and_set(row, values)):
        raise Stale(
            f"{slug} was changed meanwhile: its version is {row.version}.",
            next_step="Read it again and repeat the change if it still makes sense.",
        )
    return audit.record(
        actor=actor,
        action=action,
        target=f"tenant:{slug}",
        tenant=slug,
        before=before,
        after=_shown(row, *values),
        why=why,
        undoes=undoes,
    )


def _compare_and_set(row: Organization, values: Mapping[str, object]) -> bool:
    """Writes where the version is still the one read, and brings ``row`` up to date."""
    changed = Organization.objects.filter(pk=row.pk, version=row.version).update(
        version=F("version") + 1, **values
    )
    for name, value in values.items():
        setattr(row, name, value)
    return bool(changed)


def _shown(row: Organization, *names: str) -> dict[str, object]:
    """JSON values of an audit row."""
    shown: dict[str, object] = {}
    for name in names:
        value = getattr(row, name)
        if name == "highest_class":
            value = PriorityClass(value).label
        elif name in ("plan", "suspended_at"):
            value = str(value) if value is not None else None
        shown[name] = value
    return shown


def _refuse_look_alike(row: Organization) -> None:
    if other := Organization.objects.filter(skeleton=row.skeleton).first():
        same = "exists already" if other.slug == row.slug else f"looks like {other.slug}"
        raise AlreadyExists(
            f"The slug {row.slug} {same}.", next_step="Choose another one.", field="slug"
        )


def _default_plan() -> str:
    return str(settings.FAIRWAY_TENANTS.default_plan)
