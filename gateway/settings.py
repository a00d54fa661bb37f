"""Settings of the gateway that need a restart. ``config.env`` fills them. Seconds unless named."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from annotated_types import Ge, Gt, Le
from pydantic import BeforeValidator

Seconds = Annotated[float, Gt(0)]


def _networks(value: object) -> object:
    """Comma-separated networks, each well formed. Raises ValueError."""
    if not isinstance(value, str):
        return value
    names = tuple(part.strip() for part in value.split(",") if part.strip())
    for name in names:
        ipaddress.ip_network(name)
    return names


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """The first four and the last are shared; any other comes from FAIRWAY_GATEWAY_<FIELD>."""

    var_dir: Path
    redis_url: str = field(repr=False)
    key_pepper: bytes = field(repr=False)
    secret_key: bytes = field(repr=False)
    connect_timeout_s: Seconds = 3.0  # to a replica
    between_tokens_timeout_s: Seconds = 60.0  # a stream that is silent for longer has stalled
    total_timeout_s: Seconds = 1800.0  # a call, from its arrival
    body_timeout_s: Seconds = 10.0  # for a request body to arrive
    drain_grace_s: Seconds = 30.0  # what open streams get at shutdown
    keep_alive_s: Seconds = 15.0  # silence after which a committed stream gets a comment
    replica_networks: Annotated[tuple[str, ...], BeforeValidator(_networks)] = ()  # loopback or
    # link-local networks where replicas may be, which are refused otherwise
    active_calls: Annotated[int, Ge(16), Le(1_000_000)] = 16_384  # at once; 2 KiB of disk for each
    ledger_spool_bytes: Annotated[int, Ge(1_000_000)] = 1024 * 1024 * 1024  # while the database
    # is away; more is lost and counted
    metrics_token: str = field(default="", repr=False)  # asked for by /metrics; without one it
    # answers this machine only
    memory_limit_bytes: Annotated[int, Ge(0)] = 0  # of this process; 0: as the system limits it
    tenant_labels: Annotated[int, Ge(1), Le(10_000)] = 100  # tenants named in metrics; the
    # rest is "other"
    traces_dir: Path = Path("traces")
