"""``manage.py simulate``."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

TRACES = Path(__file__).parent / "traces"


def simulate(*arguments: object) -> str:
    out = io.StringIO()
    call_command("simulate", *map(str, arguments), stdout=out, stderr=io.StringIO())
    return out.getvalue()


def test_prints_a_line_per_policy_and_says_that_it_is_simulated() -> None:
    text = simulate(
        "--scenario=short_calls", "--policy=direct,fifo/round_robin", "--seconds=2", "--seed=3"
    )
    assert text.startswith("Simulated")
    assert len([line for line in text.splitlines() if line.startswith("short_calls")]) == 2


def test_writes_a_page_and_json(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "report"
    simulate("--scenario=short_calls", "--policy=direct", "--seconds=2", f"--out={folder}")
    assert "Plotly.newPlot" in (folder / "report.html").read_text()
    assert json.loads((folder / "report.json").read_text())["runs"][0]["policy"] == "direct"


def test_json_output_is_the_same_for_the_same_seed() -> None:
    arguments = ("--scenario=hot", "--policy=fifo/round_robin", "--seconds=10", "--json")
    assert json.loads(simulate(*arguments)) == json.loads(simulate(*arguments))


def test_runs_a_trace_of_any_known_format() -> None:
    text = simulate(f"--trace={TRACES / 'azure.csv'}", "--policy=direct", "--replicas=1")
    assert "azure" in text


def test_list_names_scenarios_and_policies_without_any_trace(tmp_path: Path) -> None:
    text = simulate("--list", f"--traces={tmp_path}")
    assert all(name in text for name in ("uniform", "overload-multi", "mooncake", "engine/{fcfs"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--scenario=nowhere"], r"Unknown scenario 'nowhere'; known: uniform"),
        (["--policy=magic"], r"unknown policy 'magic'; known: direct"),
        (["--seconds=0"], r"--seconds must be above 0"),
        (["--scenario=mooncake", "--policy=direct", "--traces=/nowhere"], r"FAIRWAY_TRACES"),
        (["--trace=/nowhere.csv"], r"There is no /nowhere.csv"),
    ],
)
def test_mistakes_end_with_one_line_that_says_what_to_do(arguments: list[str], said: str) -> None:
    with pytest.raises(CommandError, match=said):
        simulate(*arguments)


def test_report_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    arguments = ("--scenario=short_calls", "--policy=direct", "--seconds=1")
    with pytest.raises(CommandError, match="name another --out"):
        simulate(*arguments, f"--out={tmp_path / 'file'}")


def test_malformed_trace_names_line_and_column(tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text("t_s,client,input_tokens,output_tokens\n0,a,10,x\n")
    with pytest.raises(CommandError, match=r"bad.csv, line 2, column output_tokens: 'x'"):
        simulate(f"--trace={path}", "--policy=direct")
