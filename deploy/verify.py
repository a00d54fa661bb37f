"""``make verify``: every figure at full size, written to ``docs/figures.md`` with commit and
machine.

Each section is a program that prints its figures; it says itself what is simulated. A section that
fails or runs out of time is named as such in the file, and the command then ends with 1.
``FAIRWAY_TRACES`` names the folder of the published traces; sections that need it say when it is
absent. Sections can be named on the command line; the file is written only when all have run.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FIGURES = ROOT / "docs" / "figures.md"
PYTEST = ("pytest", "-q", "-s", "-p", "no:cacheprovider")


@dataclass(frozen=True, slots=True)
class Section:
    """``module`` and its arguments are run as ``python -m``; ``limit_s`` of wall time."""

    title: str
    module: tuple[str, ...]
    limit_s: float
    environment: dict[str, str] = field(default_factory=dict)
    markdown: bool = False  # prints Markdown of its own


SECTIONS = {
    "live": Section(
        "The whole product through sockets: faults and changes under load",
        (
            *PYTEST,
            "tests/e2e/test_redis_pause.py",
            "tests/e2e/test_postgresql_faults.py",
            "tests/e2e/test_live_changes.py",
            "tests/e2e/test_replica_loss.py",
            "tests/e2e/test_disconnects.py",
        ),
        900,
        {"TEST_REDIS_PAUSE_S": "20", "TEST_POSTGRESQL_FREEZE_S": "20"},
    ),
    "simulation": Section(
        "Simulated: schedulers, routing, overload",
        ("benchmarks.verify_simulation",),
        1800,
        markdown=True,
    ),
    "overload": Section("Simulated: overload and bookings", ("benchmarks.overload",), 600),
    "decision": Section("Cost of a scheduling decision", ("benchmarks.decision",), 300),
    "prefixes": Section("Prefix index: memory and time", ("benchmarks.prefix_index",), 600),
    "wire": Section("Cost of the wire", ("benchmarks.wire",), 120),
    "quota": Section("Cost of quota", ("benchmarks.quota_stores",), 120),
}


@dataclass(frozen=True, slots=True)
class Result:
    section: Section
    output: str
    verdict: str  # "" when it passed
    took_s: float


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in SECTIONS]
    if unknown:
        print(f"verify: unknown section {', '.join(unknown)}; known: {', '.join(SECTIONS)}")
        return 2
    results = [_run(SECTIONS[name]) for name in names or SECTIONS]
    page = _page(results)
    if names:
        print(page)
    else:
        FIGURES.write_text(page, encoding="utf-8")
        print(f"verify: wrote {FIGURES.relative_to(ROOT)}")
    return 1 if any(result.verdict for result in results) else 0


def _run(section: Section) -> Result:
    print(f"verify: {section.title}", flush=True)
    environment = {"FAIRWAY_DEBUG": "true", **os.environ, **section.environment}
    began_s = time.monotonic()
    try:
        done = subprocess.run(
            [sys.executable, "-m", *section.module],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=section.limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        output, verdict = late.stdout or b"", f"not finished within {section.limit_s:.0f} s"
    else:
        output = done.stdout
        verdict = f"failed with status {done.returncode}" if done.returncode else ""
    print(f"verify: {verdict or 'done'} after {time.monotonic() - began_s:.0f} s", flush=True)
    return Result(section, output.decode(errors="replace"), verdict, time.monotonic() - began_s)


def _page(results: list[Result]) -> str:
    at = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    machine = f"{os.cpu_count()} cores ({platform.machine()}, Python {platform.python_version()})"
    head = (
        f"# Figures\n\nWritten by `make verify` at commit {_commit()}, {at}, on {machine}. Absolute"
        " times are of that machine; ratios and simulated figures hold elsewhere.\n\n"
    )
    return head + "".join(_told(result) for result in results)


def _told(result: Result) -> str:
    body = result.output.strip()
    if not result.section.markdown:
        body = f"```\n{body}\n```"
    verdict = f"**{result.verdict}**\n\n" if result.verdict else ""
    command = " ".join(("python -m", *result.section.module))
    return f"## {result.section.title}\n\n`{command}`, {result.took_s:.0f} s\n\n{verdict}{body}\n\n"


def _commit() -> str:
    command = ["git", "rev-parse", "--short", "HEAD"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
