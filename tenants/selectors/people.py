"""Reads of operators and of what a signed-in account may be."""

from __future__ import annotations

from django.db.models import QuerySet

from tenants.errors import NotFound
from tenants.models import Member, Operator
from tenants.wording import printable


def operators() -> QuerySet[Operator]:
    return Operator.objects.select_related("user").order_by("user__username")


def operator(username: str) -> Operator:
    row = operators().filter(user__username=username).first()
    if row is None:
        raise NotFound(
            f"{printable(username)} is not an operator.",
            next_step="List them with: manage.py operator list",
        )
    return row


def is_operator(user_id: int) -> bool:
    return Operator.objects.filter(
        user=user_id, user__is_active=True, disabled_at__isnull=True
    ).exists()


def roles_of(user_id: int) -> dict[str, str]:
    """Tenant slug to role."""
    rows = Member.objects.filter(user=user_id, user__is_active=True)
    return dict(rows.values_list("organization__slug", "role"))
