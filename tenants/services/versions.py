"""Which configuration is current? One row counts every write that running gateways must see.

``bump`` first, then write: the row's lock makes configuration writers take turns, so that they
cannot deadlock and each reads what the one before it wrote. After the commit the change is
announced.
"""

from __future__ import annotations

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from tenants.announcement import announce
from tenants.models import ConfigVersion


def bump() -> int:
    """Adds one inside the caller's transaction and returns the new version."""
    changed = ConfigVersion.objects.filter(id=1).update(
        version=F("version") + 1, changed_at=timezone.now()
    )
    if not changed:
        ConfigVersion.objects.create(id=1, version=1)
    transaction.on_commit(announce)
    return ConfigVersion.objects.values_list("version", flat=True).get(id=1)


def take_back() -> None:
    """After a ``bump`` in the same transaction whose write changed nothing."""
    ConfigVersion.objects.filter(id=1).update(version=F("version") - 1)


def lock() -> None:
    """As ``bump`` makes writers take turns, before a read that decides about a write."""
    ConfigVersion.objects.filter(id=1).update(version=F("version"))
