"""``manage.py simulate``: policies against scenarios in virtual time."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TextIO

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from plotly.offline import get_plotlyjs

from gateway.simulation.matrix import Cell, run_matrix
from gateway.simulation.policy import Policy, parse_policy
from gateway.simulation.report.page import report_page
from gateway.simulation.report.table import text_table
from gateway.simulation.report.values import NOTE, json_values
from gateway.simulation.scenario import Scenario
from gateway.simulation.traces.formats import TRACE_FORMATS
from gateway.simulation.traces.reading import TraceError
from gateway.simulation.workloads.published import (
    suite_scenarios,
    trace_scenario,
    trace_scenarios,
)
from gateway.simulation.workloads.scenarios import SCENARIOS

DEFAULT_SCENARIOS = ("uniform", "hot", "multi_turn", "half_speed", "overload")
DEFAULT_POLICIES = (
    "direct",
    "fifo/round_robin",
    "start_time_fair/least_inflight",
    "start_time_fair/bounded",
)


class Command(BaseCommand):
    help = (
        "Run policies against scenarios in a discrete-event simulation of gateway, engines and\n"
        "clients. The gateway is the product's own scheduler; engines are models, no GPU runs.\n"
        "Prints a table; --out DIR adds report.html and report.json. See docs/simulation.md."
    )
    requires_system_checks = ()

    def create_parser(self, *args: Any, **kwargs: Any) -> CommandParser:
        parser = super().create_parser(*args, **kwargs)
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        return parser

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--scenario", action="append", metavar="NAME[,NAME]", help="see --list; repeatable"
        )
        parser.add_argument(
            "--policy", action="append", metavar="NAME[,NAME]", help="see --list; repeatable"
        )
        parser.add_argument("--seed", action="append", type=int, help="repeatable; default 11")
        parser.add_argument("--seconds", type=float, help="shorter or longer than the scenario")
        parser.add_argument("--out", type=Path, metavar="DIR", help="write the report there")
        parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
        parser.add_argument("--list", action="store_true", help="scenarios and policies, then end")
        parser.add_argument("--traces", type=Path, metavar="DIR", help="default: FAIRWAY_TRACES")
        parser.add_argument("--trace", type=Path, metavar="FILE", help="run this trace")
        parser.add_argument("--format", choices=sorted(TRACE_FORMATS), help="of --trace")
        parser.add_argument("--replicas", type=int, default=8, help="for --trace; %(default)s")

    def handle(self, *args: Any, **options: Any) -> None:
        folder = options["traces"] or settings.FAIRWAY_GATEWAY.traces_dir
        known = SCENARIOS | suite_scenarios() | trace_scenarios(folder)
        if options["list"]:
            self._list(known.values())
            return
        try:
            cells = self._run(known, options)
        except TraceError as error:
            raise CommandError(f"{error}. Correct the file or name another one.") from error
        except FileNotFoundError as error:
            raise CommandError(
                f"There is no {error.filename}. Put the file there, or name its folder with"
                " --traces or FAIRWAY_TRACES (docs/simulation.md says where traces come from)."
            ) from error
        except KeyboardInterrupt:
            raise CommandError("Stopped. --seconds makes a run shorter.") from None
        try:
            self._say(cells, options)
        except OSError as error:
            raise CommandError(
                f"{error.filename}: {error.strerror}; name another --out."
            ) from error

    def _run(self, known: dict[str, Scenario], options: dict[str, Any]) -> list[Cell]:
        policies = _policies(options["policy"])
        if options["trace"] is not None:
            replicas = max(1, options["replicas"])
            scenarios = [trace_scenario(options["trace"], options["format"], replicas)]
        else:
            scenarios = _scenarios(options["scenario"], known)
        seconds = options["seconds"]
        if seconds is not None and seconds <= 0:
            raise CommandError("--seconds must be above 0.")
        line = ProgressLine(sys.stderr, {one.name: one.seconds for one in scenarios}, seconds)
        runs = run_matrix(
            scenarios, policies, options["seed"] or [11], seconds=seconds, progress=line.tell
        )
        try:
            return list(runs)
        finally:
            line.clear()

    def _say(self, cells: Sequence[Cell], options: dict[str, Any]) -> None:
        values = json_values(cells)
        if options["json"]:
            self.stdout.write(json.dumps(values, indent=1))
        else:
            self.stdout.write(f"{NOTE}\n\n{text_table(cells)}")
        folder: Path | None = options["out"]
        if folder is None:
            return
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "report.json").write_text(json.dumps(values))
        (folder / "report.html").write_text(report_page(cells, get_plotlyjs()))
        self.stderr.write(f"Wrote {folder / 'report.html'} and {folder / 'report.json'}.")

    def _list(self, scenarios: Iterable[Scenario]) -> None:
        self.stdout.write("Scenarios")
        for one in scenarios:
            self.stdout.write(f"  {one.name:20} {one.about}")
        self.stdout.write("\nPolicies")
        try:
            parse_policy("")
        except ValueError as error:
            self.stdout.write(f"  {str(error).partition('known: ')[2]}")


class ProgressLine:
    """One line on a terminal, nothing elsewhere. At most ten times a second."""

    def __init__(self, stream: TextIO, ends_s: dict[str, float], seconds: float | None) -> None:
        self._stream = stream
        self._ends_s = ends_s
        self._seconds = seconds
        self._told = 0.0
        self._shows = stream.isatty()

    def tell(self, label: str, at_s: float) -> None:
        now = time.monotonic()
        if not self._shows or now < self._told + 0.1:
            return
        self._told = now
        end_s = self._seconds or self._ends_s[label.split()[0]]
        done = f"{min(1.0, at_s / end_s):4.0%}" if end_s < 1e5 else f"{at_s:,.0f} s"
        self._stream.write(f"\r\x1b[K{label}: {done}")
        self._stream.flush()

    def clear(self) -> None:
        if self._shows:
            self._stream.write("\r\x1b[K")
            self._stream.flush()


def _policies(given: list[str] | None) -> list[Policy]:
    names = _names(given)
    try:
        return [parse_policy(name) for name in names or DEFAULT_POLICIES]
    except ValueError as error:
        raise CommandError(f"{error}.") from error


def _scenarios(given: list[str] | None, known: dict[str, Scenario]) -> list[Scenario]:
    names = _names(given) or list(DEFAULT_SCENARIOS)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise CommandError(f"Unknown scenario {unknown[0]!r}; known: {', '.join(known)}.")
    return [known[name] for name in names]


def _names(given: list[str] | None) -> list[str]:
    return [name for one in given or () for name in one.split(",") if name]
