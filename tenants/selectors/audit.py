"""Reads of the audit trail, newest first."""

from __future__ import annotations

from django.db.models import Exists, OuterRef, QuerySet

from tenants.errors import NotFound
from tenants.models import AuditEntry


def entries(
    *, tenant: str | None = None, target: str | None = None, before_id: int | None = None
) -> QuerySet[AuditEntry]:
    """``before_id`` continues a page: entries older than that id. Slice it. Each has
    ``superseded``: a newer entry of the same action on the same target exists."""
    since = AuditEntry.objects.filter(
        target=OuterRef("target"), action=OuterRef("action"), id__gt=OuterRef("id")
    )
    rows = AuditEntry.objects.annotate(superseded=Exists(since)).order_by("-id")
    if tenant is not None:
        rows = rows.filter(tenant=tenant)
    if target is not None:
        rows = rows.filter(target=target)
    return rows if before_id is None else rows.filter(id__lt=before_id)


def entry(entry_id: int) -> AuditEntry:
    row = AuditEntry.objects.filter(id=entry_id).first()
    if row is None:
        raise NotFound(f"There is no audit entry {entry_id}.", next_step="Look at the audit trail.")
    return row


def newer(change: AuditEntry) -> AuditEntry | None:
    """The latest entry of the same action on the same target after ``change``."""
    return entries(target=change.target).filter(action=change.action, id__gt=change.pk).first()
