"""Settings of batch files and jobs. ``config.env`` fills them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class WorkersSettings:
    """The first three are shared; any other field comes from FAIRWAY_WORKERS_<FIELD>."""

    var_dir: Path
    secret_key: bytes
    port: int
    gateway_url: str = ""  # empty: http://127.0.0.1:<port>
