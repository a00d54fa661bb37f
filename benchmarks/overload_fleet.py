"""Overload on the simulated fleet: what is served in time, and who comes back. All simulated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from benchmarks.simulation_tables import FAIR, Row, run
from gateway.core.priority import PriorityClass
from gateway.core.reasons import Reason
from gateway.simulation.call import Outcome
from gateway.simulation.metrics.summary import is_good, quantiles
from gateway.simulation.report.table import figure_text
from gateway.simulation.simulator import Run
from gateway.simulation.workloads.overload import BURST_S, CAPACITY_CPS
from gateway.simulation.workloads.scenarios import SCENARIOS

BURSTS = ("burst", "burst_stubborn")
LOADS = ("mixed_1x", "mixed_2x", "mixed_5x", "interactive_5x")
SEEDS = (11, 12, 13, 14, 15)


def overload() -> tuple[Row, list[Row]]:
    """Every load under every seed; goodput and TTFT relative to the run at 1x of the same seed."""
    rows: list[Row] = []
    for seed in SEEDS:
        counted = {name: _counted(name, seed) for name in LOADS}
        for name in LOADS:
            rows.append([name, str(seed), *_load(counted[name], counted["mixed_1x"])])
    header = [
        "scenario",
        "seed",
        "calls",
        "goodput of 1x",
        "interactive served",
        "its TTFT p99 s",
        "of 1x",
        "queue timeouts",
        "shed",
    ]
    return header, rows


def bursts() -> tuple[Row, list[Row]]:
    rows = [[name, str(seed), *_returns(name, seed)] for name in BURSTS for seed in SEEDS]
    header = [
        "scenario",
        "seed",
        "first returns admitted",
        "most returns in 5 s, of capacity",
        "most calls in 5 s after the burst, of capacity",
    ]
    return header, rows


def first_returns(outcome: Run) -> tuple[int, int]:
    """Admitted, and all."""
    first = [one for one in outcome.outcomes if one.call.attempt == 1]
    return sum(one.refused is None for one in first), len(first)


def highest_wave(times_s: Iterable[float]) -> float:
    """Most calls in any 5 s after the burst, of the capacity."""
    windows = Counter(int(at_s // 5.0) for at_s in times_s if at_s >= BURST_S[1] + 5.0)
    return max(windows.values(), default=0) / 5.0 / CAPACITY_CPS


def interactive_ttft_p99_s(counted: Iterable[Outcome]) -> float | None:
    """Of the calls that were completed."""
    interactive = (one for one in counted if one.call.klass is PriorityClass.INTERACTIVE)
    return quantiles(one.ttft_s(0.0) for one in interactive if one.completed).p99


def goodput(name: str, counted: Iterable[Outcome]) -> int:
    return sum(is_good(one, SCENARIOS[name].objectives) for one in counted)


def _counted(name: str, seed: int) -> list[Outcome]:
    scenario = SCENARIOS[name]
    outcomes = run(scenario, FAIR, seed).outcomes
    return [one for one in outcomes if one.call.at_s >= scenario.warm_up_s]


def _load(counted: list[Outcome], reference: list[Outcome]) -> Row:
    ended = [one for one in counted if one.call.klass is PriorityClass.INTERACTIVE and not one.open]
    served = sum(one.completed for one in ended)
    p99_s, reference_s = interactive_ttft_p99_s(counted), interactive_ttft_p99_s(reference)
    timeouts = sum(one.refused is Reason.QUEUE_TIMEOUT for one in counted)
    return [
        str(len(counted)),
        f"{goodput('mixed_1x', counted) / goodput('mixed_1x', reference):.2f}",
        f"{served / len(ended):.4f}" if ended else "-",
        figure_text(p99_s, 3),
        f"{p99_s / reference_s:.2f}" if p99_s and reference_s else "-",
        f"{timeouts / len(counted):.4f}",
        str(sum(one.refused is Reason.SHED for one in counted)),
    ]


def _returns(name: str, seed: int) -> Row:
    outcome = run(SCENARIOS[name], FAIR, seed)
    admitted, returned = first_returns(outcome)
    calls = [one.call for one in outcome.outcomes]
    back = highest_wave(call.at_s for call in calls if call.attempt)
    return [
        f"{admitted} of {returned}",
        f"{back:.2f}",
        f"{highest_wave(c.at_s for c in calls):.2f}",
    ]
