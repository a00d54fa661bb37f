"""``make verify``: every figure at full size, written to ``docs/figures.md``.

Each section is a program that prints its figures; it says itself what is simulated. What it printed
is kept in ``var/figures`` with the commit and the time at which it ran, so that sections can be
taken one by one (named on the command line); the page says which have not been taken. A section
that fails or runs out of time is named as such, and the command then ends with 1.
``FAIRWAY_TRACES`` names the folder of the published traces; sections that need it say when it is
absent.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FIGURES = ROOT / "docs" / "figures.md"
KEPT = ROOT / "var" / "figures"
LOGGED = re.compile(r'\{[^\n]*"level": "[a-z]+"[^\n]*\}\n')  # what the product wrote beside it
PYTEST = ("pytest", "-q", "-s", "-p", "no:cacheprovider")


@dataclass(frozen=True, slots=True)
class Section:
    """``module`` and its arguments are run as ``python -m``; ``limit_s`` of wall time."""

    title: str
    module: tuple[str, ...]
    limit_s: float
    environment: dict[str, str] = field(default_factory=dict)
    markdown: bool = False  # prints Markdown of its own


def _simulated(what: str, *sections: str) -> Section:
    module = ("benchmarks.verify_simulation", *sections)
    return Section(f"Simulated: {what}", module, 3600, markdown=True)


SECTIONS = {
    "live": Section(
        "The whole product through sockets: faults and changes under load",
        (
            *PYTEST,
            "tests/stores/test_degraded.py",
            "tests/e2e/test_redis_pause.py",
            "tests/e2e/test_postgresql_faults.py",
            "tests/e2e/test_database_pool.py",
            "tests/e2e/test_full_disk.py",
            "tests/e2e/test_live_changes.py",
            "tests/e2e/test_processes.py",
            "tests/e2e/test_replica_loss.py",
            "tests/e2e/test_disconnects.py",
            "tests/e2e/test_rolling_restart.py",
        ),
        1200,
        {
            "TEST_REDIS_PAUSE_S": "20",
            "TEST_POSTGRESQL_FREEZE_S": "20",
            "TEST_LEFT_STREAMS": "200",
            "TEST_KILLED_PROCESSES": "25",
            "TEST_QUEUED": "100",
            "TEST_RESTART_S": "20",
            "TEST_PROCESSES": "3",
        },
    ),
    "shares": Section(
        "51 connections beside 3, through HTTP, one simulated replica of 4 sequences",
        (*PYTEST, "tests/e2e/test_elephant_and_mouse.py"),
        180,
        {"TEST_SHARE_S": "60"},
    ),
    "light": Section(
        "Real llama.cpp: warm slots of two servers; one caller beside forty at them",
        (
            *PYTEST,
            "tests/scenarios/test_llamacpp_caches.py",
            "tests/scenarios/test_heavy_beside_light.py",
        ),
        300,
        {"TEST_LIGHT_CALLS": "40"},
    ),
    "refusals": Section(
        "200 calls a second through HTTP at a simulated pool that does eight",
        (*PYTEST, "tests/e2e/test_overload.py"),
        300,
        {"TEST_OVERLOAD_S": "60"},
    ),
    "slow": Section(
        "Simulated: one of three replicas becomes three times as slow",
        (*PYTEST, "tests/scenarios/test_slow_replica.py"),
        180,
        {"TEST_SLOW_REPLICA_S": "20"},
    ),
    "keys": Section(
        "Keys: a million of them, a million addresses that try some, the cost of one",
        (
            *PYTEST,
            "tests/tenants/test_key_format.py",
            "tests/core/test_bad_keys.py",
            "tests/gateway/pipeline/test_authentication.py",
        ),
        600,
        {"TEST_KEYS": "1000000", "TEST_ADDRESSES": "1000000", "PYTEST_TIMEOUT": "600"},
    ),
    "bodies": Section(
        "Generated request bodies: what reaches a replica is in range",
        (*PYTEST, "tests/wire/test_ranges.py", "--timeout=900"),
        900,
        {"TEST_BODY_CASES": "20000"},
    ),
    "faults": Section(
        "Faults at full size: bugs at every await, broken and hostile replicas",
        (
            *PYTEST,
            "tests/gateway/pipeline/test_fault_points.py",
            "tests/gateway/pipeline/test_garbage.py",
            "tests/gateway/pipeline/test_hangs.py",
            "tests/gateway/pipeline/test_all_down.py",
            "tests/e2e/test_all_replicas_down.py",
            "tests/e2e/test_hostile_replicas.py",
        ),
        1800,
        {
            "TEST_FAULT_POINTS": "all",
            "TEST_GARBAGE_CASES": "20000",
            "TEST_BREAKS": "200",
            "TEST_HANGS": "200",
            "TEST_HANGING_CALLS": "600",
            "TEST_ALL_DOWN_S": "6",
        },
    ),
    "abuse": Section(
        "Callers at their worst: time of callbacks, files, memory, readers that do not read",
        (
            *PYTEST,
            "tests/gateway/pipeline/test_loop_time.py",
            "tests/gateway/test_loop_watch.py",
            "tests/gateway/test_memory_watch.py",
            "tests/e2e/test_short_memory.py",
            "tests/e2e/test_slow_heads.py",
            "tests/e2e/test_readers_that_stop.py",
            "tests/e2e/test_full_gateway.py",
        ),
        300,
        {
            "TEST_HALF_HEADS": "2000",
            "TEST_BLOCKED_S": "2.2",
            "TEST_NOISE_S": "0.01",
            "TEST_ADDRESS_SPACE": "1",
        },
    ),
    "idle": Section(
        "4,000 streams that wait, through one gateway", ("benchmarks.idle_streams",), 400
    ),
    "edge": Section(
        "CPU of a call and of a chunk beside nginx, vllm-router and litellm",
        ("deploy.bench",),
        1200,
    ),
    "schedulers": _simulated("schedulers of OSDI'24", "arena", "jittered", "bounds"),
    "routing": _simulated("routing, every policy", "routing", "mooncake"),
    "fairness": _simulated("fairness and locality", "groups", "locality", "fairness"),
    "fleet": _simulated("overload of a batching fleet", "overload", "bursts"),
    "overload": Section("Simulated: overload and bookings", ("benchmarks.overload",), 600),
    "decision": Section("Cost of a scheduling decision", ("benchmarks.decision",), 300),
    "prefixes": Section("Prefix index: memory and time", ("benchmarks.prefix_index",), 600),
    "wire": Section("Cost of the wire", ("benchmarks.wire",), 120),
    "quota": Section("Cost of quota", ("benchmarks.quota_stores",), 120),
}


@dataclass(frozen=True, slots=True)
class Result:
    """``verdict``: empty when it passed. ``commit`` and ``at``: of the run."""

    output: str
    verdict: str
    took_s: float
    commit: str
    at: str


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in SECTIONS]
    if unknown:
        print(f"verify: unknown section {', '.join(unknown)}; known: {', '.join(SECTIONS)}")
        return 2
    KEPT.mkdir(parents=True, exist_ok=True)
    results = [_taken(name) for name in names or SECTIONS]
    FIGURES.write_text(_page(), encoding="utf-8")
    print(f"verify: wrote {FIGURES.relative_to(ROOT)}")
    return 1 if any(result.verdict for result in results) else 0


def _kept(name: str) -> Path:
    return KEPT / f"{name}.json"


def _taken(name: str) -> Result:
    result = _run(SECTIONS[name])
    _kept(name).write_text(json.dumps(asdict(result)), encoding="utf-8")
    return result


def _run(section: Section) -> Result:
    print(f"verify: {section.title}", flush=True)
    environment = {"FAIRWAY_DEBUG": "true", **os.environ, **section.environment}
    commit, at = _commit(), f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
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
    took_s = time.monotonic() - began_s
    print(f"verify: {verdict or 'done'} after {took_s:.0f} s", flush=True)
    return Result(output.decode(errors="replace"), verdict, took_s, commit, at)


def _page() -> str:
    machine = f"{os.cpu_count()} cores ({platform.machine()}, Python {platform.python_version()})"
    head = (
        f"# Figures\n\nWritten by `make verify` on {machine}; each section says at which commit and"
        " when. What is headed *Simulated* is simulated: engines are models, no GPU ran. The rest"
        " is measured on that machine, whatever else it ran meanwhile; ratios and simulated figures"
        " hold elsewhere.\n\n"
    )
    return head + "".join(_told(name, section) for name, section in SECTIONS.items())


def _told(name: str, section: Section) -> str:
    if not _kept(name).exists():
        return f"## {section.title}\n\nNot taken yet: `make verify ARGS={name}`.\n\n"
    result = Result(**json.loads(_kept(name).read_text(encoding="utf-8")))
    body = LOGGED.sub("", result.output).strip()
    if not section.markdown:
        body = f"```\n{body}\n```"
    verdict = f"**{result.verdict}**\n\n" if result.verdict else ""
    command = " ".join(("python -m", *section.module))
    when = f"commit {result.commit}, {result.at}, {result.took_s:.0f} s"
    return f"## {section.title}\n\n`{command}`; {when}\n\n{verdict}{body}\n\n"


def _commit() -> str:
    """Of the work tree; marked where it has changes of its own."""
    command = ["git", "describe", "--always", "--dirty"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
