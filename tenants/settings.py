"""Settings of the tenant and quota database. ``config.env`` fills them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TenantsSettings:
    """``key_pepper`` is shared; any other field comes from FAIRWAY_TENANTS_<FIELD>.

    ``default_plan`` is the plan of a tenant created without one. ``rotation_grace_s`` is how long
    a rotated key lives beside its successor.
    """

    key_pepper: bytes
    default_plan: str = "free"
    rotation_grace_s: float = 86_400.0

    def __repr__(self) -> str:
        return f"TenantsSettings({self.default_plan}, {self.rotation_grace_s:g} s)"
