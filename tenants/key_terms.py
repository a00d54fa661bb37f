"""What may a key do? The terms that an owner states and a service checks as a whole."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, replace
from datetime import datetime

from django.utils import timezone

from gateway.core.priority import PriorityClass
from tenants.bounds import clean_class
from tenants.errors import Invalid
from tenants.models.keys import ApiKey, Scope
from tenants.wording import clean_name, clean_text, printable

ENTRIES_MAX = 100


@dataclass(frozen=True, slots=True)
class KeyTerms:
    """Classes are labels. Empty ``models`` or ``allowed_networks`` restrict nothing."""

    label: str = "key"
    scopes: tuple[str, ...] = (Scope.INFERENCE, Scope.BATCH)
    models: tuple[str, ...] = ()
    highest_class: str = PriorityClass.INTERACTIVE.label
    default_class: str = PriorityClass.STANDARD.label
    allowed_networks: tuple[str, ...] = ()
    expires_at: datetime | None = None

    @classmethod
    def of(cls, row: ApiKey) -> KeyTerms:
        return cls(
            label=row.label,
            scopes=tuple(row.scopes),
            models=tuple(row.allowed_models),
            highest_class=PriorityClass(row.highest_class).label,
            default_class=PriorityClass(row.default_class).label,
            allowed_networks=tuple(row.allowed_networks),
            expires_at=row.expires_at,
        )

    def cleaned(self) -> KeyTerms:
        """Sorted, without duplicates, the default class within the grant. Raises Invalid."""
        highest = clean_class(self.highest_class, field="highest_class")
        default = clean_class(self.default_class, field="default_class")
        return replace(
            self,
            label=clean_name(self.label, field="label"),
            scopes=_scopes(self.scopes),
            models=_bounded("models", tuple(clean_text(m, field="models") for m in self.models)),
            default_class=default.clamped_to(highest).label,
            allowed_networks=_bounded(
                "allowed_networks", tuple(_network(n) for n in self.allowed_networks)
            ),
        )

    def columns(self) -> dict[str, object]:
        """Columns of the row that holds cleaned terms."""
        return {
            "label": self.label,
            "scopes": list(self.scopes),
            "allowed_models": list(self.models),
            "highest_class": int(PriorityClass.parse(self.highest_class)),
            "default_class": int(PriorityClass.parse(self.default_class)),
            "allowed_networks": list(self.allowed_networks),
            "expires_at": self.expires_at,
        }

    def shown(self) -> dict[str, object]:
        """JSON values."""
        return {
            "label": self.label,
            "scopes": list(self.scopes),
            "models": list(self.models),
            "highest_class": self.highest_class,
            "default_class": self.default_class,
            "allowed_networks": list(self.allowed_networks),
            "expires_at": self.expires_at.isoformat() if self.expires_at else None,
        }


def clean_expiry(value: datetime | None) -> datetime | None:
    """A moment to come, with a zone. Raises Invalid."""
    if value is None:
        return None
    if timezone.is_naive(value):
        raise Invalid(
            "expires_at has no time zone.", next_step="Add one, such as Z.", field="expires_at"
        )
    if value <= timezone.now():
        raise Invalid(
            "expires_at has passed.", next_step="Give a moment to come.", field="expires_at"
        )
    return value


def _scopes(values: tuple[str, ...]) -> tuple[str, ...]:
    known = [scope.value for scope in Scope]
    for value in values:
        if value not in known:
            raise Invalid(
                f"There is no scope {printable(value)}.",
                next_step=f"Known: {', '.join(known)}.",
                field="scopes",
            )
    if not values:
        raise Invalid("A key needs a scope.", next_step="Give at least one.", field="scopes")
    return tuple(scope for scope in known if scope in values)


def _network(value: str) -> str:
    try:
        return str(ipaddress.ip_network(value, strict=False))
    except ValueError:
        raise Invalid(
            f"{printable(value)} is not an IP network.",
            next_step="Write it like 192.0.2.0/24.",
            field="allowed_networks",
        ) from None


def _bounded(field: str, values: tuple[str, ...]) -> tuple[str, ...]:
    if len(values) > ENTRIES_MAX:
        raise Invalid(
            f"{field} has {len(values)} entries.",
            next_step=f"Give at most {ENTRIES_MAX}.",
            field=field,
        )
    return tuple(sorted(set(values)))
