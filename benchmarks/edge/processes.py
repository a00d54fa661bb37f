"""What have a process and its children used? From /proc, of every thread that still runs."""

from __future__ import annotations

import contextlib
from pathlib import Path

PROC = Path("/proc")


def cpu_s(root: int) -> float:
    """Time on a core since each thread began, to the nanosecond."""
    used_ns = 0
    for pid in family(root):
        for schedstat in (PROC / str(pid) / "task").glob("*/schedstat"):
            with contextlib.suppress(OSError):
                used_ns += int(schedstat.read_text().split()[0])
    return used_ns / 1e9


def resident_mb(root: int) -> float:
    """Pages that are shared count in each process."""
    total_kb = 0
    for pid in family(root):
        with contextlib.suppress(OSError):
            for line in (PROC / str(pid) / "status").read_text().splitlines():
                if line.startswith("VmRSS:"):
                    total_kb += int(line.split()[1])
    return total_kb / 1024


def family(root: int) -> list[int]:
    """``root`` and what descends from it."""
    parents: dict[int, int] = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
                parents[int(entry.name)] = int(fields[1])
    found = [root]
    for pid in found:  # grows meanwhile
        found += [child for child, parent in parents.items() if parent == pid]
    return found
