"""Settings of batch files and jobs. ``config.env`` fills them. Seconds unless named."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from annotated_types import Ge, Gt, Le

Seconds = Annotated[float, Gt(0)]
MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class WorkersSettings:
    """The first four are shared; any other field comes from FAIRWAY_WORKERS_<FIELD>."""

    var_dir: Path
    secret_key: bytes = field(repr=False)
    key_pepper: bytes = field(repr=False)
    port: int
    gateway_url: str = ""  # where lines of batches are sent; empty: this machine, PORT
    lines_at_once: Annotated[int, Ge(1), Le(1000)] = 16  # in flight in one worker process
    runners: Annotated[int, Ge(1), Le(100)] = 2  # worker processes that share one batch
    chunk_s: Seconds = 20.0  # how long one task starts lines before it hands over to the next
    lease_s: Seconds = 60.0  # after which the lines of a worker that died are taken over
    heartbeat_s: Seconds = 15.0  # how often a running worker renews its leases
    line_timeout_s: Seconds = 900.0  # for one line's answer, its wait in the queue included
    file_bytes: Annotated[int, Ge(1024)] = 200 * MEBIBYTE  # largest file of a batch
    files_per_tenant: Annotated[int, Ge(1)] = 1000  # kept at once, output files included
    bytes_per_tenant: Annotated[int, Ge(1024)] = 4096 * MEBIBYTE  # kept at once
    active_batches: Annotated[int, Ge(1)] = 50  # of one tenant, not yet finished
    file_days: Annotated[int, Ge(1), Le(365)] = 30  # until a file without an expiry is deleted
    window_s: Seconds = 86_400.0  # until an unfinished batch expires

    @property
    def files_dir(self) -> Path:
        return self.var_dir / "files"

    @property
    def calls_url(self) -> str:
        return self.gateway_url.rstrip("/") or f"http://127.0.0.1:{self.port}"
