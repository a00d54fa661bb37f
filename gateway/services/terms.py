"""What can be set of a pool and of a replica, checked, with the form that audit rows keep.

Prices are microcredits per million tokens. Capabilities and endpoints are of known names, so
that a mistyped one is noticed.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Self

from django.conf import settings

from gateway.core.routing.policies import ROUTING_POLICIES
from gateway.models import Pool, Replica
from gateway.replicas.adapters import ADAPTERS
from gateway.services.addresses import clean_base_url
from tenants.errors import Invalid
from tenants.selectors.organizations import organization
from tenants.wording import clean_slug, printable

ENDPOINTS = ("chat/completions", "completions", "embeddings", "responses", "messages")
TEMPLATE_ORDERS = ("", "tools_first", "system_first")  # empty: not learned
CAPABILITIES = ("tools", "vision", "reasoning", "structured_output", "logprobs", "cache_salt")
PRICE_MAX = 10**12
CONTEXT_MAX_TOKENS = 100_000_000
SLOTS_MAX = 10_000
OBJECTIVE_MAX_S = 3600.0
API_KEY_CHARACTERS = 2_000


@dataclass(frozen=True, slots=True)
class PoolTerms:
    routing: str = "bounded"
    input_per_mtok: int = 0
    cached_per_mtok: int = 0
    output_per_mtok: int = 0
    context_tokens: int = 0
    endpoints: tuple[str, ...] = ("chat/completions", "completions")
    capabilities: tuple[str, ...] = ()
    template_order: str = ""
    ttft_objective_s: float | None = None
    tpot_objective_s: float | None = None

    @classmethod
    def of(cls, row: Pool) -> Self:
        return cls(**_read(row, cls.__slots__))

    def checked(self) -> Self:
        """Raises Invalid."""
        one_of(self.routing, tuple(ROUTING_POLICIES), "routing")
        for field in ("input_per_mtok", "cached_per_mtok", "output_per_mtok"):
            whole(getattr(self, field), field, 0, PRICE_MAX)
        whole(self.context_tokens, "context_tokens", 0, CONTEXT_MAX_TOKENS)
        if not self.endpoints:
            raise Invalid("A pool serves at least one endpoint.", field="endpoints")
        for endpoint in self.endpoints:
            one_of(endpoint, ENDPOINTS, "endpoints")
        for capability in self.capabilities:
            one_of(capability, CAPABILITIES, "capabilities")
        one_of(self.template_order, TEMPLATE_ORDERS, "template_order")
        for field in ("ttft_objective_s", "tpot_objective_s"):
            _objective(getattr(self, field), field)
        return self

    def columns(self) -> dict[str, Any]:
        return _columns(asdict(self))


@dataclass(frozen=True, slots=True)
class ReplicaTerms:
    """0 context tokens: as its pool. Without ``tenants`` it runs everybody's calls."""

    kind: str
    base_url: str
    slots: int = 32
    context_tokens: int = 0
    kv_tokens: int = 250_000
    capabilities: tuple[str, ...] = ()
    region: str = ""
    tenants: tuple[str, ...] = ()
    band_from_tokens: int = 0
    band_to_tokens: int = 0

    @classmethod
    def of(cls, row: Replica) -> Self:
        return cls(**_read(row, cls.__slots__))

    def checked(self) -> Self:
        """All but the address, which `checked_url` has checked. Raises Invalid, NotFound."""
        one_of(self.kind, tuple(ADAPTERS), "kind")
        whole(self.slots, "slots", 1, SLOTS_MAX)
        whole(self.context_tokens, "context_tokens", 0, CONTEXT_MAX_TOKENS)
        whole(self.kv_tokens, "kv_tokens", 1, CONTEXT_MAX_TOKENS)
        for capability in self.capabilities:
            one_of(capability, CAPABILITIES, "capabilities")
        if self.region:
            clean_slug(self.region)
        for tenant in self.tenants:
            organization(tenant)
        whole(self.band_from_tokens, "band_from_tokens", 0, CONTEXT_MAX_TOKENS)
        whole(self.band_to_tokens, "band_to_tokens", 0, CONTEXT_MAX_TOKENS)
        if self.band_to_tokens and self.band_to_tokens <= self.band_from_tokens:
            raise Invalid("The band of prompt lengths is empty.", field="band_to_tokens")
        return self

    def columns(self) -> dict[str, Any]:
        return _columns(asdict(self))


def checked_url(base_url: str) -> str:
    """Resolves the host name, which may take seconds: not inside a transaction. Raises Invalid."""
    return clean_base_url(base_url, settings.FAIRWAY_GATEWAY.replica_networks)


def clean_api_key(value: str) -> str:
    """Printable ASCII, as an HTTP header needs it; empty: none. Raises Invalid, without the
    value."""
    if not (value.isascii() and (value.isprintable() or not value)) or " " in value:
        raise Invalid("The replica's API key has characters that no header can carry.")
    if len(value) > API_KEY_CHARACTERS:
        raise Invalid(f"The replica's API key is longer than {API_KEY_CHARACTERS} characters.")
    return value


def one_of(value: str, known: tuple[str, ...], field: str) -> None:
    if value not in known:
        raise Invalid(
            f"There is no {field} {printable(value)}.",
            next_step=f"Known: {', '.join(known)}.",
            field=field,
        )


def whole(value: int, field: str, least: int, most: int) -> None:
    if not least <= value <= most:
        raise Invalid(
            f"{field} of {value} is not accepted.",
            next_step=f"Give a whole number from {least} to {most}.",
            field=field,
        )


def _objective(value: float | None, field: str) -> None:
    if value is not None and not (math.isfinite(value) and 0 < value <= OBJECTIVE_MAX_S):
        raise Invalid(
            f"{field} of {value} is not accepted.",
            next_step=f"Give seconds above 0, up to {OBJECTIVE_MAX_S:.0f}, or leave it out.",
            field=field,
        )


def _read(row: Pool | Replica, names: tuple[str, ...]) -> dict[str, Any]:
    values = {name: getattr(row, name) for name in names}
    return {name: tuple(v) if isinstance(v, list) else v for name, v in values.items()}


def _columns(values: dict[str, Any]) -> dict[str, Any]:
    return {name: list(v) if isinstance(v, tuple) else v for name, v in values.items()}
