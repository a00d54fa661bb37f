"""Settings of the tenant and quota database. ``config.env`` fills them."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class TenantsSettings:
    """``key_pepper`` and ``redis_url`` are shared; any other field comes from
    FAIRWAY_TENANTS_<FIELD>. Seconds."""

    key_pepper: bytes = field(repr=False)
    redis_url: str = ""
    default_plan: str = "free"  # of a tenant created without one
    rotation_grace_s: float = 86_400.0  # a rotated key lives on beside its successor
    ledger_days: int = 400  # that a row of the ledger is kept
