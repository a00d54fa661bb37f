"""Reads of organizations, their members and plans. What is absent raises NotFound."""

from __future__ import annotations

from django.db.models import QuerySet

from tenants.errors import NotFound
from tenants.models import Member, Organization, Plan
from tenants.wording import printable


def organizations(*, of_user: int | None = None) -> QuerySet[Organization]:
    """All, or those that a user is a member of, by slug."""
    rows = Organization.objects.select_related("plan").order_by("slug")
    return rows if of_user is None else rows.filter(members__user=of_user)


def organization(slug: str) -> Organization:
    row = Organization.objects.select_related("plan").filter(slug=slug).first()
    if row is None:
        raise NotFound(
            f"There is no tenant {printable(slug)}.",
            next_step="List them with: manage.py tenant list",
        )
    return row


def plans() -> QuerySet[Plan]:
    return Plan.objects.prefetch_related("limits").order_by("weight", "slug")


def plan(slug: str) -> Plan:
    row = Plan.objects.filter(slug=slug).first()
    if row is None:
        known = ", ".join(Plan.objects.values_list("slug", flat=True)) or "none"
        raise NotFound(f"There is no plan {printable(slug)}.", next_step=f"Known: {known}.")
    return row


def members_of(slug: str) -> QuerySet[Member]:
    return (
        Member.objects.select_related("user", "organization")
        .filter(organization=organization(slug))
        .order_by("user__username")
    )


def member(slug: str, username: str) -> Member:
    row = members_of(slug).filter(user__username=username).first()
    if row is None:
        raise NotFound(f"{printable(username)} is not a member of {slug}.")
    return row
