"""Which policy does how well in which scenario? Every policy in every scenario, over some seeds.

A cell is one policy in one scenario; its figures are the means over its seeds, its lines those of
the first seed. The same seed gives the same calls to every policy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from gateway.simulation.metrics.series import Series, series_of
from gateway.simulation.metrics.summary import Summary, summary
from gateway.simulation.policy import Policy
from gateway.simulation.scenario import Scenario, simulate

Progress = Callable[[str, float], None]  # what runs, simulated seconds


@dataclass(frozen=True, slots=True)
class Cell:
    scenario: Scenario
    policy: Policy
    seeds: tuple[int, ...]
    summaries: tuple[Summary, ...]
    series: Series

    def mean(self, figure: Callable[[Summary], float | None]) -> float | None:
        """None: no seed has this figure."""
        values = [value for one in self.summaries if (value := figure(one)) is not None]
        return fmean(values) if values else None


def run_matrix(
    scenarios: Sequence[Scenario],
    policies: Sequence[Policy],
    seeds: Sequence[int],
    *,
    seconds: float | None = None,
    progress: Progress | None = None,
) -> Iterator[Cell]:
    """By scenario, then by policy, each as soon as it is done."""
    for scenario in scenarios:
        for policy in policies:
            yield _cell(scenario, policy, tuple(seeds), seconds, progress)


def _cell(
    scenario: Scenario,
    policy: Policy,
    seeds: tuple[int, ...],
    seconds: float | None,
    progress: Progress | None,
) -> Cell:
    summaries = []
    series = Series()
    for seed in seeds:
        label = f"{scenario.name} {policy.name} seed {seed}"
        tell = None if progress is None else _telling(progress, label)
        run = simulate(scenario, policy, seed, seconds=seconds, progress=tell)
        summaries.append(summary(run, scenario))
        if not series.at_s:
            replicas = tuple(scenario.engines)
            series = series_of(run, replicas, scenario.warm_up_s, scenario.pool.weights)
    return Cell(scenario, policy, seeds, tuple(summaries), series)


def _telling(progress: Progress, label: str) -> Callable[[float], None]:
    return lambda at_s: progress(label, at_s)
