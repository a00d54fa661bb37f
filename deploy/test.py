"""``make test``: what the tests need, then lint, types and the suite; the last line names what was
skipped.

Redis, PostgreSQL and Chromium are installed where we may (root, or sudo without a password, and
apt-get). Where one cannot be had its tests skip, and the last line says which. The suite runs on
SQLite; the tests that touch the database, browser aside, run once more on a PostgreSQL.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from xml.etree import ElementTree

from tests.servers import chromium, postgres_programs, postgres_server

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("gateway", "tenants", "dashboard", "workers", "config", "deploy", "tests")
PYTEST = (sys.executable, "-m", "pytest", "-q", "--durations=5")


def main() -> int:
    started = time.monotonic()
    install_servers()
    with tempfile.TemporaryDirectory(prefix="fairway-report-") as directory:
        reports = [Path(directory) / "sqlite.xml", Path(directory) / "postgresql.xml"]
        failed = [name for name, passed in _steps(*reports) if not passed]
        skipped = sorted({reason for report in reports for reason in _skipped(report)})
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
    apt = _apt_get()
    if not missing or apt is None:
        return
    print(f"test: installing {', '.join(missing)}", flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (["update"], ["install", "-y", "--no-install-recommends", *missing]):
        if subprocess.run([*apt, "-qq", *arguments], env=environment, check=False).returncode:
            print(f"test: apt-get {arguments[0]} failed; tests that need it skip", flush=True)


def _steps(sqlite: Path, postgresql: Path) -> list[tuple[str, bool]]:
    ruff, mypy = (sys.executable, "-m", "ruff"), (sys.executable, "-m", "mypy", "--strict")
    steps = [
        ("lint", _passes(*ruff, "check", ".")),
        ("format", _passes(*ruff, "format", "--check", "--quiet", ".")),
        ("types", _passes(*mypy, *PACKAGES, "manage.py")),
        ("tests on SQLite", _passes(*PYTEST, f"--junitxml={sqlite}")),
    ]
    with postgres_server() as server:
        if server is not None:
            selection = ("-m", "database", "--ignore=tests/browser", f"--junitxml={postgresql}")
            passed = _passes(*PYTEST, *selection, DATABASE_URL=server.url)
            steps.append(("tests on PostgreSQL", passed))
    return steps


def _passes(*command: str, **extra_environment: str) -> bool:
    words = [word for word in command[1:] if not word.startswith("--junitxml")]
    print(f"test: {' '.join(words)}", flush=True)
    environment = {**os.environ, **extra_environment}
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode == 0


def _skipped(report: Path) -> list[str]:
    """``tests.stores.test_redis::test_x (redis-server is not installed)`` for each skipped test."""
    if not report.exists():
        return []
    return [
        f"{case.get('classname')}::{case.get('name')} ({skip.get('message')})"
        for case in ElementTree.parse(report).iter("testcase")
        for skip in case.iter("skipped")
    ]


def _apt_get() -> list[str] | None:
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
