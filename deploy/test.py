"""``make test``: what the tests need, then lint, types and the suite; the last line names what was
skipped.

Redis, PostgreSQL and Chromium are installed where we may (root, or sudo without a password, and
apt-get). Where one cannot be had its tests skip, and the last line says which. Two lanes run at
once, one for each core. The suite runs on SQLite; the tests that touch the database, browser aside,
run once more on a PostgreSQL.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from xml.etree import ElementTree

from tests.servers import PostgresServer, chromium, postgres_programs, postgres_server

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("gateway", "tenants", "dashboard", "workers", "config", "deploy", "tests")
WHOLE = ("tests/e2e", "tests/browser")


@dataclass(frozen=True, slots=True)
class Step:
    """One command; it has passed when its status is 0. ``report``: where pytest writes its own."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    report: Path | None = None


def main() -> int:
    started = time.monotonic()
    install_servers()
    with tempfile.TemporaryDirectory(prefix="fairway-report-") as directory:
        with postgres_server() as server:
            lanes = [checks(Path(directory)), whole(Path(directory), server)]
            with ThreadPoolExecutor(len(lanes)) as pool:
                ends = pool.map(run_lane, lanes, (True, False))
                failed = [name for names in ends for name in names]
        steps = [step for lane in lanes for step in lane]
        skipped = sorted({reason for step in steps for reason in _skipped(step.report)})
    print(verdict(failed, skipped, time.monotonic() - started), flush=True)
    return 1 if failed else 0


def checks(reports: Path) -> list[Step]:
    """One lane: lint, format, types, and the tests that need one process."""
    ruff, mypy = (sys.executable, "-m", "ruff"), (sys.executable, "-m", "mypy", "--strict")
    elsewhere = [f"--ignore={directory}" for directory in WHOLE]
    return [
        Step("lint", (*ruff, "check", ".")),
        Step("format", (*ruff, "format", "--check", "--quiet", ".")),
        Step("types", (*mypy, *PACKAGES, "manage.py")),
        _pytest("tests", reports, *elsewhere),
    ]


def whole(reports: Path, postgres: PostgresServer | None) -> list[Step]:
    """The other lane: whole installations, browsers, and once more what touches the database."""
    steps = [_pytest("end to end", reports, *WHOLE)]
    if postgres is not None:
        selection = ("-m", "database", "--ignore=tests/browser")
        step = _pytest("tests on PostgreSQL", reports, *selection)
        steps.append(replace(step, environment={"DATABASE_URL": postgres.url}))
    return steps


def run_lane(steps: Sequence[Step], live: bool) -> list[str]:
    """One after the other. The words of a step are printed as they come, or in one piece at its
    end, so that two lanes do not mix. Returns the names of those that failed."""
    return [step.name for step in steps if not _passes(step, live)]


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


def _pytest(name: str, reports: Path, *selection: str) -> Step:
    report = reports / f"{name}.xml"
    command = (sys.executable, "-m", "pytest", "-q", "--durations=5", f"--junitxml={report}")
    return Step(name, (*command, *selection), report=report)


def _passes(step: Step, live: bool) -> bool:
    started = time.monotonic()
    print(f"test: {step.name} …", flush=True)
    done = subprocess.run(
        step.command,
        cwd=ROOT,
        env={**os.environ, **step.environment},
        stdout=None if live else subprocess.PIPE,
        stderr=None if live else subprocess.STDOUT,
        text=True,
        check=False,
    )
    state = "failed" if done.returncode else "passed"
    took_s = time.monotonic() - started
    print(f"{done.stdout or ''}test: {step.name} {state} after {took_s:.0f} s", flush=True)
    return done.returncode == 0


def _skipped(report: Path | None) -> list[str]:
    """``tests.stores.test_redis::test_x (redis-server is not installed)`` for each skipped test."""
    if report is None or not report.exists():
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
