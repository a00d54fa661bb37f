"""Settings of the tenant and quota database. ``config.env`` fills them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TenantsSettings:
    """``key_pepper`` is shared; any other field comes from FAIRWAY_TENANTS_<FIELD>."""

    key_pepper: bytes
