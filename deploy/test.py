"""``make test``: what the tests need, then lint, types and the suite; the last line names what was
skipped.

Redis, PostgreSQL and Chromium are installed where we may (root, or sudo without a password, and
apt-get). Where one cannot be had its tests skip, and the last line says which. The suite runs on
SQLite, what does not mind company on all cores at once; the tests that touch the database, browser
aside, run meanwhile once more on a PostgreSQL. What measures real time (``alone``) comes last.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree

from tests.servers import chromium, postgres_programs, postgres_server

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("gateway", "tenants", "dashboard", "workers", "config", "deploy", "tests")
WORKERS = max(2, os.cpu_count() or 2)
PYTEST = (sys.executable, "-m", "pytest", "-q", "--durations=5")


def main() -> int:
    started = time.monotonic()
    install_servers()
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
    lint, types = (sys.executable, "-m", "ruff"), (sys.executable, "-m", "mypy", "--strict")
    shared = (*PYTEST, "-n", str(WORKERS), "--dist=worksteal", "-m", "not alone")
    with _on_postgresql(reports / "postgresql.xml") as second:
        steps = [
            ("lint", _passes(*lint, "check", ".")),
            ("format", _passes(*lint, "format", "--check", "--quiet", ".")),
            ("types", _passes(*types, *PACKAGES, "manage.py")),
            ("tests on SQLite", _passes(*shared, f"--junitxml={reports / 'sqlite.xml'}")),
        ]
        if second is not None:
            print("test: the tests of the database on PostgreSQL, which ran meanwhile", flush=True)
            steps.append(("tests on PostgreSQL", second() == 0))
    alone = _passes(*PYTEST, "-m", "alone", f"--junitxml={reports / 'alone.xml'}")
    return [*steps, ("tests of real time", alone)]


@contextlib.contextmanager
def _on_postgresql(report: Path) -> Iterator[Callable[[], int] | None]:
    """Starts the second run and gives what waits for its end, prints its words and returns its
    status; None where there is no PostgreSQL."""
    with postgres_server() as server, tempfile.TemporaryFile("w+") as words:
        if server is None:
            yield None
            return
        run = subprocess.Popen(
            [*PYTEST, "-m", "database and not alone", f"--junitxml={report}"],
            cwd=ROOT,
            env={**os.environ, "DATABASE_URL": server.url},
            stdout=words,
            stderr=subprocess.STDOUT,
            text=True,
        )

        def finish() -> int:
            status = run.wait()
            words.seek(0)
            print(words.read(), flush=True)
            return status

        try:
            yield finish
        finally:
            run.kill()


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
