"""Every write that changes something leaves exactly one row here, in its own transaction."""

from __future__ import annotations

from collections.abc import Mapping

from tenants.actors import Actor
from tenants.models import AuditEntry
from tenants.services import versions
from tenants.snapshot import current_version
from tenants.wording import clean_text

Shown = Mapping[str, object] | None


def record(
    *,
    actor: Actor,
    action: str,
    target: str,
    before: Shown,
    after: Shown,
    why: str = "",
    address: str = "",
    tenant: str = "",
    undoes: int | None = None,
) -> AuditEntry:
    """``target`` is ``kind:id``. ``before`` and ``after`` hold JSON values and never a secret.

    Call it after ``versions.bump``, whose version the row keeps. Where nothing changed that bump
    is taken back and the entry is not saved: it has no id.
    """
    unchanged = before is not None and before == after
    if unchanged:
        versions.take_back()
    entry = AuditEntry(
        actor=str(actor),
        address=address or actor.address,
        action=action,
        target=target,
        tenant=tenant,
        before=None if before is None else dict(before),
        after=None if after is None else dict(after),
        why=clean_text(why) if why else "",
        config_version=current_version(),
        undoes=undoes,
    )
    if not unchanged:
        entry.save(force_insert=True)
    return entry
