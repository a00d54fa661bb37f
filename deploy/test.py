"""``make test``: what the tests need, then lint, types and the suite; the last line names what was
skipped.

Redis, PostgreSQL and Chromium are installed where we may (root, or sudo without a password, and
apt-get), clients of the APIs below ``var/clients``. Where one cannot be had its tests skip, and the
last line says which. The suite runs on SQLite, what does not mind company on all cores at once.
Beside it, one after another: the installations, the tests of whole products, which mostly wait,
and those that touch the database once more on a PostgreSQL. What measures real time (``alone``)
comes last, when nothing else runs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from xml.etree import ElementTree

from deploy import clients
from tests.servers import chromium, postgres_programs, postgres_server

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("gateway", "tenants", "dashboard", "workers", "config", "deploy", "tests")
WORKERS = max(2, os.cpu_count() or 2)
PYTEST = (sys.executable, "-m", "pytest", "-q", "--durations=5")
PRODUCTS = ("tests/e2e", "tests/browser")  # to collect these alone, or all but these, is quicker
CORES = ("-n", str(WORKERS), "--dist=worksteal")
REST = tuple(f"--ignore={directory}" for directory in PRODUCTS)

Run = subprocess.CompletedProcess[str]


def main() -> int:
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fairway-report-") as directory:
        failed = [name for name, passed in _steps(Path(directory)) if not passed]
        skipped = sorted(
            {reason for report in Path(directory).iterdir() for reason in _skipped(report)}
        )
    print(verdict(failed, skipped, time.monotonic() - started), flush=True)
    return 1 if failed else 0


def verdict(failed: list[str], skipped: list[str], took_s: float) -> str:
    """The last line."""
    state = f"FAILED: {', '.join(failed)}" if failed else "passed"
    left_out = "; ".join(skipped) or "nothing"
    return f"make test: {state} after {took_s:.0f} s; skipped: {left_out}"


def install_servers() -> None:
    """Redis, PostgreSQL and Chromium from the package manager, where that is possible."""
    there = {
        "redis-server": shutil.which("redis-server"),
        "postgresql": postgres_programs(),
        "chromium": chromium(),
    }
    missing = [name for name, found in there.items() if not found]
    apt = apt_get()
    if not missing or apt is None:
        return
    print(f"test: installing {', '.join(missing)}", flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (["update"], ["install", "-y", "--no-install-recommends", *missing]):
        if subprocess.run([*apt, "-qq", *arguments], env=environment, check=False).returncode:
            print(f"test: apt-get {arguments[0]} failed; tests that need it skip", flush=True)


def _steps(reports: Path) -> list[tuple[str, bool]]:
    """Each with whether it passed."""
    lane = ThreadPoolExecutor(1)
    try:
        servers = lane.submit(install_servers)
        lane.submit(clients.install, clients.SUITE)
        beside = {
            "tests of whole products": lane.submit(_of_products, reports / "products.xml"),
            "tests on PostgreSQL": lane.submit(_on_postgresql, reports / "postgresql.xml"),
        }
        steps = _checks()
        servers.result()
        steps.append(("tests on SQLite", _on_sqlite(reports / "sqlite.xml")))
        for name, run in beside.items():
            if (done := run.result()) is not None:
                print(f"test: {name}, which ran meanwhile\n{done.stdout}", flush=True)
                steps.append((name, done.returncode == 0))
    finally:
        lane.shutdown(cancel_futures=True)
    return [*steps, ("tests of real time", _of_real_time(reports / "alone.xml"))]


def _checks() -> list[tuple[str, bool]]:
    lint, types = (sys.executable, "-m", "ruff"), (sys.executable, "-m", "mypy", "--strict")
    return [
        ("lint", _passes(*lint, "check", ".")),
        ("format", _passes(*lint, "format", "--check", "--quiet", ".")),
        ("types", _passes(*types, *PACKAGES, "manage.py")),
    ]


def _on_sqlite(report: Path) -> bool:
    return _passes(*PYTEST, *CORES, *REST, "-m", "not alone", f"--junitxml={report}")


def _on_postgresql(report: Path) -> Run | None:
    """None where there is no PostgreSQL."""
    with postgres_server() as server:
        if server is None:
            return None
        marks = ("-m", "database and not alone")
        return _beside(report, *CORES, *REST, *marks, DATABASE_URL=server.url)


def _of_products(report: Path) -> Run | None:
    return _beside(report, *PRODUCTS, "-m", "not alone")


def _of_real_time(report: Path) -> bool:
    files = [path for path in ROOT.glob("tests/**/test_*.py") if "mark.alone" in path.read_text()]
    named = sorted(str(path.relative_to(ROOT)) for path in files)
    return _passes(*PYTEST, *named, "-m", "alone", f"--junitxml={report}")


def _beside(report: Path, *arguments: str, **environment: str) -> Run:
    """A process, whose words wait until the end of what is told meanwhile."""
    return subprocess.run(
        [*PYTEST, *arguments, f"--junitxml={report}"],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def _passes(*command: str) -> bool:
    words = [word for word in command[1:] if not word.startswith("--junitxml")]
    print(f"test: {' '.join(words)}", flush=True)
    return subprocess.run(command, cwd=ROOT, check=False).returncode == 0


def _skipped(report: Path) -> list[str]:
    """``tests.stores.test_redis::test_x (redis-server is not installed)`` for each skipped test."""
    return [
        f"{case.get('classname')}::{case.get('name')} ({skip.get('message')})"
        for case in ElementTree.parse(report).iter("testcase")
        for skip in case.iter("skipped")
    ]


def apt_get() -> list[str] | None:
    apt = shutil.which("apt-get")
    if apt is None or sys.platform != "linux":
        return None
    if os.geteuid() == 0:
        return [apt]
    sudo = ["sudo", "-n"]
    allowed = (
        shutil.which("sudo")
        and not subprocess.run([*sudo, "true"], check=False, capture_output=True).returncode
    )
    return [*sudo, apt] if allowed else None


if __name__ == "__main__":
    sys.exit(main())
