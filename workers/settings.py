"""Settings of batch files and jobs. ``config.env`` fills them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class WorkersSettings:
    """The first three are shared; any other field comes from FAIRWAY_WORKERS_<FIELD>."""

    var_dir: Path
    secret_key: bytes = field(repr=False)
    port: int
    gateway_url: str = ""  # where lines of batches are sent; empty: this machine, PORT
