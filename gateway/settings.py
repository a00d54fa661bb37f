"""Settings of the gateway that need a restart. ``config.env`` fills them. Seconds unless named."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from annotated_types import Gt

Seconds = Annotated[float, Gt(0)]


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """The first four are shared; any other field comes from FAIRWAY_GATEWAY_<FIELD>."""

    var_dir: Path
    redis_url: str
    key_pepper: bytes
    secret_key: bytes
    connect_timeout_s: Seconds = 3.0
    between_tokens_timeout_s: Seconds = 60.0
    total_timeout_s: Seconds = 1800.0
    body_timeout_s: Seconds = 10.0
    drain_grace_s: Seconds = 30.0
    keep_alive_s: Seconds = 15.0  # silence after which a committed stream gets a comment
