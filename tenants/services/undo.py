"""Takes back a change of weight or highest class, by the id of its audit row.

Compare and set: refused where something newer changed the same thing, which it names. The undo is
itself a change with an audit row, and can be undone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tenants.actors import Actor
from tenants.errors import Invalid, Stale
from tenants.models import AuditEntry
from tenants.selectors.audit import entry, newer
from tenants.services import organizations, versions
from tenants.services.transactions import transactional

_SETTERS: dict[str, tuple[str, Callable[..., AuditEntry]]] = {
    organizations.SET_WEIGHT: ("weight", organizations.set_weight),
    organizations.SET_HIGHEST_CLASS: ("highest_class", organizations.set_highest_class),
}


@transactional
def undo_together(*, entry_ids: Sequence[int], actor: Actor) -> tuple[AuditEntry, ...]:
    """All of these changes or none, the last one first. Raises as ``undo``."""
    newest_first = sorted(set(entry_ids), reverse=True)
    return tuple(undo(entry_id=entry_id, actor=actor) for entry_id in newest_first)


@transactional
def undo(*, entry_id: int, actor: Actor, why: str = "") -> AuditEntry:
    """The audit row of the undo. Raises NotFound, Invalid or Stale."""
    versions.lock()
    change = entry(entry_id)
    if change.action not in _SETTERS or change.before is None:
        raise Invalid(
            f"Entry {entry_id} ({change.action}) cannot be undone.",
            next_step="Make the opposite change.",
        )
    if later := newer(change):
        raise Stale(
            f"Entry {later.pk} by {later.actor} changed {change.target} since.",
            next_step=f"Undo {later.pk} first, or set the value.",
        )
    name, setter = _SETTERS[change.action]
    before: Any = change.before
    return setter(
        slug=change.tenant,
        actor=actor,
        why=why or f"undo of {entry_id}",
        undoes=change.pk,
        **{name: before[name]},
    )
