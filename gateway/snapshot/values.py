"""What does the hot path know of the configuration? One immutable object, swapped as a whole.

``version`` is that of the tenancy's version row, which every write that matters raises; each
decision records it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gateway.core.cost import Prices
from tenants.snapshot import KeyValue, TenantValue

BODY_BYTES = 1024 * 1024
BODY_BYTES_PER_CONTEXT_TOKEN = 8
VISION_BODY_BYTES = 20 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ReplicaValue:
    """``serial`` names the object: a replica removed and added again under its slug has another."""

    slug: str
    pool: str
    kind: str
    base_url: str
    state: str  # enabled, draining, disabled
    slots: int
    context_tokens: int  # 0: as its pool
    kv_tokens: int
    capabilities: frozenset[str]
    serial: int
    api_key: str = field(default="", repr=False)
    region: str = ""
    tenants: frozenset[str] = frozenset()  # whose calls it runs; empty = everybody's
    band_from_tokens: int = 0  # prompt lengths that it is meant for
    band_to_tokens: int = 0  # 0 = no end


@dataclass(frozen=True, slots=True)
class PoolValue:
    slug: str
    replicas: tuple[ReplicaValue, ...]
    routing: str
    prices: Prices
    context_tokens: int  # the longest prompt and answer together; 0: unknown
    endpoints: frozenset[str]  # such as chat/completions
    capabilities: frozenset[str]  # such as vision, tools
    ttft_objective_s: float | None
    tpot_objective_s: float | None
    template_order: str = ""  # tools_first, system_first; empty = not learned

    @property
    def most_body_bytes(self) -> int:
        if "vision" in self.capabilities:
            return VISION_BODY_BYTES
        return max(BODY_BYTES, BODY_BYTES_PER_CONTEXT_TOKEN * self.context_tokens)


@dataclass(frozen=True, slots=True)
class Target:
    """Where an alias leads. ``fallback``: only while no target that is none can serve."""

    pool: str
    upstream_model: str
    weight: int = 1
    fallback: bool = False


@dataclass(frozen=True, slots=True)
class AliasValue:
    """``name`` is what callers ask for, ``upstream_model`` what the pool's replicas call it.
    ``others``: more targets beside this one."""

    name: str
    pool: str
    upstream_model: str
    weight: int = 1
    others: tuple[Target, ...] = ()
    created_at: float = 0.0  # Unix epoch

    @property
    def targets(self) -> tuple[Target, ...]:
        return (Target(self.pool, self.upstream_model, self.weight), *self.others)


@dataclass(frozen=True, slots=True)
class Snapshot:
    version: int
    loaded_at: float  # Unix epoch
    tenants: Mapping[str, TenantValue]
    keys: Mapping[str, KeyValue]
    pools: Mapping[str, PoolValue]
    aliases: Mapping[str, AliasValue]
    parameters: Mapping[tuple[str, str], float]  # (name, pool or *) -> what an operator set
    most_body_bytes: int = BODY_BYTES  # of any request; that of the most generous pool
    stale_at: float | None = None  # Unix epoch: build again then, also under the same version

    def parameter(self, name: str, pool: str) -> float | None:
        """The pool's value, else that of all pools, else None: the default of the code."""
        return self.parameters.get((name, pool), self.parameters.get((name, "*")))
