"""Reads of API keys. A key of another tenant is NotFound, like one that does not exist."""

from __future__ import annotations

from django.db.models import QuerySet

from tenants.errors import NotFound
from tenants.models import ApiKey
from tenants.selectors.organizations import organization
from tenants.wording import printable


def keys_of(slug: str) -> QuerySet[ApiKey]:
    """Newest first."""
    return (
        ApiKey.objects.select_related("organization", "rotated_to")
        .prefetch_related("limits")
        .filter(organization=organization(slug))
    )


def all_keys() -> QuerySet[ApiKey]:
    """Of every tenant, newest first: for operators."""
    return ApiKey.objects.select_related("organization", "rotated_to")


def key(slug: str, key_id: str) -> ApiKey:
    row = keys_of(slug).filter(key_id=key_id).first()
    if row is None:
        raise NotFound(
            f"{slug} has no key {printable(key_id)}.",
            next_step=f"List them with: manage.py apikey list {slug}",
        )
    return row


def key_by_id(key_id: str) -> ApiKey:
    """Whatever its tenant: for operators and for authentication."""
    row = all_keys().filter(key_id=key_id).first()
    if row is None:
        raise NotFound(
            f"There is no key {printable(key_id)}.",
            next_step="List them with: manage.py apikey list",
        )
    return row
