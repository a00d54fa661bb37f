"""The metric is that of the published table: recomputed from its measurements it gives its
figures."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import pytest

from gateway.simulation.metrics.service_difference import (
    ServedCall,
    accumulated_differences,
    service_between,
    service_difference,
    windows_between,
)

ARENA = Path(__file__).parent / "traces" / "arena.csv.gz"


def measured(scheduler: str) -> list[ServedCall]:
    with gzip.open(ARENA, "rt") as lines:
        return [
            ServedCall(
                client=row["client"],
                arrived_s=(at_s := float(row["t_s"])),
                first_token_s=at_s + float(row[f"{scheduler}_ttft_s"]),
                ended_s=at_s + float(row[f"{scheduler}_e2e_s"]),
                cost=int(row["input_tokens"]) + 2 * int(row["output_tokens"]),
            )
            for row in csv.DictReader(lines)
        ]


@pytest.mark.parametrize(
    ("scheduler", "largest", "average", "variance"),
    [("FCFS", 759.97, 433.53, 32112.02), ("VTC", 368.40, 251.66, 6549.13)],
)
def test_measurements_of_the_artifact_give_its_published_figures(
    scheduler: str, largest: float, average: float, variance: float
) -> None:
    difference = service_difference(measured(scheduler))
    assert difference.largest == pytest.approx(largest, abs=0.01)
    assert difference.average == pytest.approx(average, abs=0.01)
    assert difference.variance == pytest.approx(variance, abs=0.1)


def test_accumulated_difference_is_that_of_the_artifact() -> None:
    assert max(accumulated_differences(measured("FCFS"))) == pytest.approx(154_034.3, abs=1)


def call(client: str, cost: float, from_s: float = 10.0, to_s: float = 20.0) -> ServedCall:
    return ServedCall(client, from_s, from_s, to_s, cost)


def test_service_is_spread_evenly_from_first_token_to_end() -> None:
    assert service_between([call("a", 100.0)], 15.0, 60.0) == {"a": pytest.approx(50.0)}


def test_who_gets_all_that_it_asked_for_adds_nothing() -> None:
    calls = [call("a", 100.0), call("b", 10.0)]
    assert service_difference(calls, [(0.0, 60.0)]).average == pytest.approx(0.0)


def test_who_waits_while_another_is_served_adds_what_it_lacks() -> None:
    late = ServedCall("b", 10.0, 80.0, 90.0, 600.0)
    difference = service_difference([call("a", 600.0), late], [(0.0, 60.0)])
    assert difference.average == pytest.approx(600.0 / 60.0)


def test_accumulated_difference_is_by_weight() -> None:
    calls = [call("a", 300.0, 40.0, 50.0), call("b", 100.0, 40.0, 50.0)]
    assert accumulated_differences(calls, [100.0], weights={"a": 3.0}) == [pytest.approx(0.0)]


def test_windows_of_a_short_run_are_one() -> None:
    assert windows_between(10.0, 30.0) == ((10.0, 30.0),)
    assert windows_between(0.0, 120.0) == ((0.0, 60.0), (30.0, 90.0), (60.0, 120.0))
