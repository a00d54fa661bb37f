"""Table, JSON and page of a small matrix."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache

import pytest

from gateway.simulation.matrix import Cell, run_matrix
from gateway.simulation.policy import parse_policy
from gateway.simulation.report.page import report_page
from gateway.simulation.report.table import COLUMNS, text_table
from gateway.simulation.report.values import json_values
from gateway.simulation.workloads.scenarios import SCENARIOS

POLICIES = ("direct", "fifo/round_robin")


@cache
def cells() -> tuple[Cell, ...]:
    scenario = replace(SCENARIOS["return_from_idle"], name="</script><b>", warm_up_s=5.0)
    policies = [parse_policy(name) for name in POLICIES]
    return tuple(run_matrix([scenario], policies, [1, 2], seconds=40.0))


def test_a_cell_has_one_summary_per_seed_and_the_lines_of_the_first() -> None:
    cell = cells()[0]
    assert (cell.seeds, len(cell.summaries)) == ((1, 2), 2)
    assert cell.mean(lambda one: one.calls) == sum(one.calls for one in cell.summaries) / 2
    assert len(cell.series.at_s) == len(cell.series.accumulated)


def test_service_of_the_lines_is_the_service_that_was_delivered() -> None:
    cell = cells()[0]
    step_s = cell.series.at_s[0]
    for tenant, rates in cell.series.service_tps.items():
        assert sum(rates) * step_s >= cell.summaries[0].service[tenant]


def test_table_has_a_line_per_policy_and_scenario() -> None:
    lines = text_table(cells()).splitlines()
    assert len(lines) == 1 + len(POLICIES)
    assert all(column.title in lines[0] for column in COLUMNS)


def test_json_is_strict_and_says_that_it_is_simulated() -> None:
    values = json.loads(json.dumps(json_values(cells()), allow_nan=False))
    assert values["note"].startswith("Simulated")
    assert [run["policy"] for run in values["runs"]] == list(POLICIES)
    assert values["runs"][0]["seeds"][1]["seed"] == 2


def test_page_needs_nothing_else_and_no_name_can_break_out_of_it() -> None:
    page = report_page(cells(), "/* plotly */")
    assert "<script>/* plotly */</script>" in page
    assert 'src="' not in page
    assert "https://" not in page
    assert "</script><b>" not in page
    assert page.count("</script>") == 3


@pytest.mark.parametrize("name", ["", "nonsense", "rpm/x", "engine/none", "fifo/none", "fifo"])
def test_unknown_policy_lists_the_known_ones(name: str) -> None:
    with pytest.raises(ValueError, match=r"unknown policy .*known: direct, rpm/N, engine/"):
        parse_policy(name)


def test_a_policy_may_be_strict_or_know_lengths() -> None:
    assert parse_policy("fifo/round_robin/strict").strict
    assert parse_policy("fifo/round_robin/oracle").knows_lengths
