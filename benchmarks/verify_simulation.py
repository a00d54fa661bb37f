"""Every figure of the simulator at full size, as Markdown tables; half an hour of CPU.

    python -m benchmarks.verify_simulation [--traces DIR] [--seeds N] [SECTION ...]

Sections: arena, jittered, bounds, routing, mooncake, groups, locality, fairness, overload, bursts.
``--traces`` is the folder of the published traces (default: ``FAIRWAY_TRACES``, else ./traces); the
sections that need one say so when it is not there. ``--seeds``: over how many the routing matrix is
averaged. Everything is simulated.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from benchmarks import locality
from benchmarks.overload_fleet import bursts, overload
from benchmarks.simulation_tables import (
    Row,
    arena,
    bounds,
    fairness,
    groups,
    jittered,
    mooncake,
    routing,
)
from gateway.simulation.report.table import markdown_table

TRACES = Path(os.environ.get("FAIRWAY_TRACES") or "traces")


def sections(folder: Path, seeds: int) -> dict[str, Callable[[], tuple[Row, list[Row]]]]:
    return {
        "arena": partial(arena, folder),
        "jittered": partial(jittered, folder),
        "bounds": bounds,
        "routing": partial(routing, seeds),
        "mooncake": partial(mooncake, folder),
        "groups": groups,
        "locality": partial(locality.table, locality.SEEDS),
        "fairness": fairness,
        "overload": overload,
        "bursts": bursts,
    }


def report(folder: Path, seeds: int, wanted: list[str]) -> Iterator[str]:
    for name, section in sections(folder, seeds).items():
        if wanted and name not in wanted:
            continue
        began_s = _cpu_s()
        try:
            header, rows = section()
        except FileNotFoundError as error:
            yield f"### {name}\n\nNot run: there is no {error.filename}; name it with --traces.\n"
            continue
        words = f"Simulated; {_cpu_s() - began_s:.0f} s of CPU."
        yield f"### {name}\n\n{markdown_table(header, rows)}\n\n{words}\n"


def _cpu_s() -> float:
    """Of this process and those that it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=Path, default=TRACES)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("section", nargs="*")
    options = parser.parse_args()
    unknown = set(options.section) - set(sections(options.traces, 1))
    if unknown:
        sys.exit(f"unknown section {unknown.pop()}; known: {', '.join(sections(Path(), 1))}")
    for text in report(options.traces, options.seeds, options.section):
        print(text, flush=True)


if __name__ == "__main__":
    main()
