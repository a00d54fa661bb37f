"""The pictures of the report, as Plotly figures in plain JSON values.

Per scenario: time to first token as a distribution, hit rate and throughput per policy, the
accumulated difference with its bound, and per policy the service of each tenant and the load of
each replica over time. Over all: the matrix of policies and scenarios. One colour per policy
everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gateway.simulation.matrix import Cell
from gateway.simulation.metrics.summary import Summary

Figure = dict[str, Any]
Place = Callable[[Figure], str]  # keeps a figure for drawing, returns the element for it

COLOURS = (
    "#2563eb",
    "#d97706",
    "#059669",
    "#dc2626",
    "#7c3aed",
    "#0891b2",
    "#be185d",
    "#4d7c0f",
    "#78716c",
    "#1e3a8a",
)


def matrix_figure(
    cells: Sequence[Cell], title: str, figure: Callable[[Summary], float | None]
) -> Figure:
    """Policies down, scenarios across; coloured by how far a value is above the lowest of its
    scenario: at twice as much the colour ends."""
    scenarios = _unique([cell.scenario.name for cell in cells])
    policies = _unique([cell.policy.name for cell in cells])
    value = {(cell.policy.name, cell.scenario.name): cell.mean(figure) for cell in cells}
    columns = {name: [value.get((policy, name)) for policy in policies] for name in scenarios}
    above = {name: _above(column) for name, column in columns.items()}
    return _figure(
        title,
        [
            {
                "type": "heatmap",
                "x": scenarios,
                "y": policies,
                "z": [[above[name][row] for name in scenarios] for row in range(len(policies))],
                "text": [
                    [_short(columns[name][row]) for name in scenarios]
                    for row in range(len(policies))
                ],
                "texttemplate": "%{text}",
                "hovertemplate": "%{y}<br>%{x}: %{text}<extra></extra>",
                "colorscale": [[0, "#bbf7d0"], [0.5, "#fef9c3"], [1, "#fecaca"]],
                "zmin": 0,
                "zmax": 1,
                "showscale": False,
            }
        ],
        height=120 + 34 * len(policies),
        yaxis={"autorange": "reversed", "automargin": True},
    )


def ttft_figure(cells: Sequence[Cell]) -> Figure:
    lines = []
    for cell in cells:
        values = cell.series.ttft_s
        shares = [(number + 1) / len(values) for number in range(len(values))]
        lines.append(_line(cells, cell, [max(value, 1e-3) for value in values], shares))
    return _figure(
        "Time to first token, share of calls below it",
        lines,
        xaxis={"type": "log", "title": {"text": "s"}},
        yaxis={"range": [0, 1.01]},
    )


def bars_figure(
    cells: Sequence[Cell], title: str, figure: Callable[[Summary], float | None]
) -> Figure:
    return _figure(
        title,
        [
            {
                "type": "bar",
                "x": [cell.policy.name for cell in cells],
                "y": [cell.mean(figure) for cell in cells],
                "marker": {"color": [_colour(cells, cell) for cell in cells]},
            }
        ],
    )


def accumulated_figure(cells: Sequence[Cell]) -> Figure:
    lines = [
        _line(cells, cell, list(cell.series.at_s), list(cell.series.accumulated)) for cell in cells
    ]
    bound = cells[0].scenario.bound
    shapes = [] if bound is None else [_bound_line(bound)]
    return _figure(
        "Accumulated service difference between the best and the least served tenant",
        lines,
        xaxis={"title": {"text": "s"}},
        shapes=shapes,
    )


def service_figure(cell: Cell) -> Figure:
    lines = [
        {"type": "scatter", "name": tenant, "x": list(cell.series.at_s), "y": list(rates)}
        for tenant, rates in cell.series.service_tps.items()
    ]
    return _figure(
        f"{cell.policy.name}: service tokens per second of each tenant",
        lines,
        xaxis={"title": {"text": "s"}},
    )


def load_figure(cell: Cell) -> Figure:
    lines = [
        {"type": "scatter", "name": slug, "x": list(cell.series.look_s), "y": list(running)}
        for slug, running in cell.series.running.items()
    ]
    return _figure(
        f"{cell.policy.name}: calls in the batch of each replica",
        lines,
        xaxis={"title": {"text": "s"}},
    )


def _line(cells: Sequence[Cell], cell: Cell, x: list[float], y: list[float]) -> Figure:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": cell.policy.name,
        "x": x,
        "y": y,
        "line": {"color": _colour(cells, cell)},
    }


def _bound_line(bound: float) -> Figure:
    return {
        "type": "line",
        "xref": "paper",
        "x0": 0,
        "x1": 1,
        "y0": bound,
        "y1": bound,
        "line": {"dash": "dash", "color": "#111827"},
        "label": {"text": f"bound {bound:,.0f}"},
    }


def _figure(title: str, traces: list[Figure], height: int = 340, **layout: Any) -> Figure:
    return {
        "data": traces,
        "layout": {
            "title": {"text": title, "font": {"size": 14}},
            "height": height,
            "margin": {"l": 60, "r": 20, "t": 50, "b": 50},
            "template": "none",
            **layout,
        },
    }


def _colour(cells: Sequence[Cell], cell: Cell) -> str:
    names = [one.policy.name for one in cells]
    return COLOURS[names.index(cell.policy.name) % len(COLOURS)]


def _above(column: Sequence[float | None]) -> list[float | None]:
    lowest = max(1e-9, min((value for value in column if value is not None), default=0.0))
    return [None if value is None else min(1.0, value / lowest - 1.0) for value in column]


def _short(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.2f}" if abs(value) < 100 else f"{value:,.0f}"


def _unique(names: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(names))
