"""Writes of aliases: which pool answers to a model name.

Keyword-only; each is one transaction, adds one to the configuration version and leaves one audit
row.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gateway import selectors as select
from gateway.models import MODEL_CHARACTERS, Alias
from gateway.services.terms import whole
from tenants.actors import Actor
from tenants.errors import Invalid
from tenants.models import AuditEntry
from tenants.services import audit, versions
from tenants.services.transactions import transactional
from tenants.wording import printable

WEIGHT_MAX = 10_000
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Other:
    """One more target of a name. ``fallback``: only when no other can serve."""

    pool: str
    upstream_model: str = ""
    weight: int = 1
    fallback: bool = False

    def check(self) -> None:
        """Raises Invalid, NotFound."""
        select.pool(self.pool)
        whole(self.weight, "weight", 0, WEIGHT_MAX)
        if self.upstream_model:
            clean_model(self.upstream_model, "upstream_model")


@transactional
def assign(
    *,
    name: str,
    pool: str,
    actor: Actor,
    upstream_model: str = "",
    weight: int = 1,
    others: Sequence[Other] = (),
    why: str = "",
) -> Alias:
    """Makes the name, or moves it to another pool. Without ``upstream_model`` the replicas are
    asked for ``name``. ``others``: more targets. Calls in the queue of the former pool stay
    there."""
    versions.bump()
    target = select.pool(pool)
    clean_model(name, "name")
    if upstream_model:
        clean_model(upstream_model, "upstream_model")
    whole(weight, "weight", 0, WEIGHT_MAX)
    for other in others:
        other.check()
    _refuse_repeated([Other(pool, upstream_model), *others], name)
    former = Alias.objects.select_related("pool").filter(name=name).first()
    row, _ = Alias.objects.update_or_create(
        name=name,
        defaults={
            "pool": target,
            "upstream_model": upstream_model,
            "weight": weight,
            "others": [asdict(other) for other in others],
        },
    )
    before = shown(former) if former else None
    _record(name, "alias.assign", actor, why, before, shown(row))
    return row


@transactional
def remove(*, name: str, actor: Actor, why: str = "") -> AuditEntry:
    """New calls for it get 404 from the next snapshot on."""
    versions.bump()
    row = select.alias(name)
    before = shown(row)
    row.delete()
    return _record(name, "alias.remove", actor, why, before, None)


def shown(row: Alias) -> dict[str, Any]:
    return {
        "name": row.name,
        "pool": row.pool.slug,
        "upstream_model": row.upstream_model,
        "weight": row.weight,
        "others": row.others,
    }


def _refuse_repeated(targets: Sequence[Other], name: str) -> None:
    """Raises Invalid: a pool is no fallback for itself, and one target has one weight."""
    regular = {one.pool for one in targets if not one.fallback}
    times = Counter((one.pool, one.upstream_model or name) for one in targets)
    for one in targets:
        if one.fallback and one.pool in regular:
            raise Invalid(
                f"The pool {one.pool} is a target of {name} and its fallback too.",
                next_step="A fallback serves when no target can: name another pool, or none.",
                field="others",
            )
    for (pool, _), number in times.items():
        if number > 1:
            raise Invalid(
                f"The pool {pool} is named more than once for {name}.",
                next_step="Name it once, with the weight that it should have.",
                field="others",
            )


def clean_model(value: str, field: str) -> str:
    """Raises Invalid."""
    if len(value) > MODEL_CHARACTERS or not _MODEL.fullmatch(value):
        raise Invalid(
            f"{printable(value)} is not a model name.",
            next_step=f"Use 1 to {MODEL_CHARACTERS} of letters, digits and . _ : / @ + -",
            field=field,
        )
    return value


def _record(
    name: str,
    action: str,
    actor: Actor,
    why: str,
    before: dict[str, object] | None,
    after: dict[str, object] | None,
) -> AuditEntry:
    return audit.record(
        actor=actor, action=action, target=f"alias:{name}", before=before, after=after, why=why
    )
