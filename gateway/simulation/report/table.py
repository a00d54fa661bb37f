"""The matrix as text: one line per policy, grouped by scenario; as columns or as Markdown.

Every figure is simulated: no GPU ran. A dash stands for what a scenario does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gateway.simulation.matrix import Cell
from gateway.simulation.metrics.summary import Summary


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    figure: Callable[[Summary], float | None]
    digits: int = 0


COLUMNS = (
    Column("calls", lambda one: one.calls),
    Column("done", lambda one: one.completed),
    Column("refused", lambda one: sum(one.refused.values())),
    Column("tok/s", lambda one: one.throughput_tps),
    Column("goodput", lambda one: one.goodput_ratio, 3),
    Column("hit", lambda one: one.hit_ratio, 3),
    Column("TTFT s", lambda one: one.ttft_s.mean, 2),
    Column("p50", lambda one: one.ttft_s.p50, 2),
    Column("p90", lambda one: one.ttft_s.p90, 2),
    Column("p99", lambda one: one.ttft_s.p99, 2),
    Column("TPOT ms", lambda one: None if one.tpot_s.p50 is None else 1e3 * one.tpot_s.p50, 1),
    Column("avg diff", lambda one: one.difference.average if one.difference else None),
    Column("acc diff", lambda one: one.accumulated),
    Column("imbalance", lambda one: one.load_imbalance, 2),
)


def text_table(cells: Sequence[Cell]) -> str:
    rows = [["scenario", "policy", *(column.title for column in COLUMNS)]]
    rows += [_row(cell) for cell in cells]
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            text.ljust(width) if index < 2 else text.rjust(width)
            for index, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def figure_text(value: float | None, digits: int = 0) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def _row(cell: Cell) -> list[str]:
    figures = [figure_text(cell.mean(column.figure), column.digits) for column in COLUMNS]
    return [cell.scenario.name, cell.policy.name, *figures]
