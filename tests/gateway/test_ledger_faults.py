"""The ledger with a real PostgreSQL that is stopped under load, and with a disk that takes
nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests import servers
from tests.servers import wait_until

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def crashing_postgres() -> Iterator[servers.PostgresServer]:
    """A server of their own: these tests crash it."""
    with servers.postgres_server() as server:
        if server is None:
            pytest.skip("PostgreSQL is not installed")
        run_manage("migrate", "-v0", url=server.url)
        yield server


@pytest.fixture
def postgres(crashing_postgres: servers.PostgresServer) -> servers.PostgresServer:
    """With an empty ledger."""
    with psycopg.connect(crashing_postgres.url) as connection:
        connection.execute("TRUNCATE tenants_ledgercall CASCADE")
    return crashing_postgres


def environment(url: str) -> dict[str, str]:
    return os.environ | {"DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "tests.settings"}


def run_manage(*words: str, url: str) -> None:
    command = [sys.executable, "manage.py", *words]
    subprocess.run(command, check=True, cwd=ROOT, env=environment(url), timeout=100)


@contextmanager
def ledger_program(
    directory: Path, url: str, *, rate: int, file_bytes: int = 0
) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.gateway.ledger_program", str(directory)]
    command += [str(rate), str(file_bytes)]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, cwd=ROOT, env=environment(url), stdin=pipe, stdout=pipe, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def finish(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Ends the load; returns what the program tells once its spool is empty."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    told: dict[str, Any] = json.loads(process.stdout.readline())
    return told


def rows(url: str) -> int:
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT count(*) FROM tenants_ledgercall").fetchone()
    assert found is not None
    return int(found[0])


def test_a_crashed_database_loses_no_record(
    postgres: servers.PostgresServer, tmp_path: Path
) -> None:
    """Row 33: stopped immediately under load, down for seven seconds, started; the rows are as many
    as the records, and the spool is empty within ten seconds."""
    with ledger_program(tmp_path, postgres.url, rate=200) as process:
        wait_until(lambda: rows(postgres.url) > 100, "rows", within_s=60)
        postgres.stop("immediate")
        time.sleep(7)
        postgres.start()
        told = finish(process)
    assert rows(postgres.url) == told["accepted"] > 700
    assert (told["dropped"], told["spooled_bytes"]) == (0, 0)
    assert told["emptied_s"] < 10
    assert (told["degraded"], told["restored"]) == (["ledger"], ["ledger"])
    assert not told["unwritable"]


def test_a_full_disk_and_no_database_lose_only_what_is_counted(
    postgres: servers.PostgresServer, tmp_path: Path
) -> None:
    """Row 35: no file may grow beyond 64 KiB; hard budgets are told to fail closed. What an auditor
    misses in the table is what the counter says."""
    postgres.stop("immediate")
    with ledger_program(tmp_path, postgres.url, rate=2_000, file_bytes=65_536) as process:
        wait_until(lambda: len(list(tmp_path.glob("*.jsonl"))) >= 2, "segments", within_s=60)
        time.sleep(4)
        postgres.start()
        told = finish(process)
    assert rows(postgres.url) == told["accepted"]
    assert told["unwritable"]
    assert "journal" in told["degraded"]
    assert told["offered"] - rows(postgres.url) == told["dropped"] > 0
