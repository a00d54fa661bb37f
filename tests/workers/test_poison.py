"""A request that kills its worker every time, with real processes and real deaths."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import Any

from django.db import connection
from django.utils import timezone

from tests.source import ROOT
from tests.workers.batches import Desk, jsonl, request
from workers.models import Batch
from workers.services import batches, lines
from workers.services.lines import ATTEMPTS
from workers.settings import WorkersSettings

LEASE_S = 0.5


def database_url() -> str:
    """Of the test database."""
    facts = connection.settings_dict
    if connection.vendor == "sqlite":
        return f"sqlite:///{facts['NAME']}"
    port, host, user = facts["PORT"], facts["HOST"], facts["USER"]
    return f"postgres://{user}@{host}:{port}/{facts['NAME']}"


def test_it_fails_alone_after_three_attempts(desk: Desk, own: WorkersSettings) -> None:
    """Row 67: the other 99 lines finish."""
    good = [request(f"r{n}") for n in range(1, 100)]
    batch = desk.checked(jsonl([*good[:50], request("poison"), *good[50:]]))
    deaths = 0
    for _ in range(20):
        died = _worker(batch, own)
        deaths += died
        time.sleep(LEASE_S * 1.2 if died else 0)
        if batches.begin_closing(batch_id=batch.batch_id, now=desk.later(60)):
            break
        lines.take_over_expired(batch_id=batch.batch_id, now=timezone.now())
    batch.refresh_from_db()
    assert (batch.completed, batch.failed, deaths) == (99, 1, ATTEMPTS)
    (error,) = desk.results(desk.closed(batch).error_file_id)
    assert (error["custom_id"], error["error"]["code"]) == ("poison", "attempts_exhausted")
    assert len(desk.results(batch.output_file_id)) == 99


def _worker(batch: Batch, own: WorkersSettings) -> bool:
    """Whether it died."""
    environment: dict[str, Any] = {
        **os.environ,
        "DATABASE_URL": database_url(),
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "FAIRWAY_WORKERS_LEASE_S": str(LEASE_S),
        "FAIRWAY_WORKERS_HEARTBEAT_S": "0.1",
    }
    command = [sys.executable, "-m", "tests.workers.poisoned_worker"]
    done = subprocess.run(
        [*command, batch.batch_id, str(own.files_dir)], cwd=ROOT, env=environment, check=False
    )
    return done.returncode == -9
