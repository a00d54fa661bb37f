"""The report: one HTML file that needs nothing else.

``plotly_js`` is the text of the script of the Plotly wheel. All names that come from the command
line or from files are escaped; figures are JSON in which "<" cannot end the script.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Sequence
from itertools import groupby

from gateway.simulation.matrix import Cell
from gateway.simulation.report import figures
from gateway.simulation.report.table import COLUMNS, figure_text
from gateway.simulation.report.values import NOTE

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;margin:0 auto;max-width:1200px;padding:24px;color:#111827}
h1{font-size:22px}h2{font-size:18px;margin-top:40px;border-top:1px solid #d1d5db;padding-top:16px}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:13px}
th,td{padding:4px 10px;text-align:right;border-bottom:1px solid #e5e7eb}
th:first-child,td:first-child{text-align:left}
.note{background:#fef9c3;padding:8px 12px;border-radius:6px}.wide{overflow-x:auto}
details{margin:12px 0}summary{cursor:pointer}
"""
_DRAW = """
const figures=JSON.parse(document.getElementById("figures").textContent);
const draw=id=>{const {data,layout}=figures[id];
Plotly.newPlot(id,data,layout,{displaylogo:false,responsive:true});delete figures[id]};
for(const id of Object.keys(figures))
if(!document.getElementById(id).closest("details"))draw(id);
for(const folded of document.querySelectorAll("details"))
folded.addEventListener("toggle",()=>{for(const one of folded.querySelectorAll("div[id]"))
if(figures[one.id])draw(one.id)});
"""


def report_page(cells: Sequence[Cell], plotly_js: str, title: str = "Fairway simulation") -> str:
    drawn: dict[str, figures.Figure] = {}

    def place(figure: figures.Figure) -> str:
        name = f"f{len(drawn)}"
        drawn[name] = figure
        return f'<div id="{name}"></div>'

    parts = [_matrices(cells, place)]
    for _, group in groupby(cells, key=lambda cell: cell.scenario.name):
        parts.append(_scenario(list(group), place))
    data = json.dumps(drawn, allow_nan=False).replace("<", "\\u003c")
    head = html.escape(title)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{head}</title>'
        f"<style>{_STYLE}</style><h1>{head}</h1><p class=note>{html.escape(NOTE)}</p>"
        + "".join(parts)
        + f"<script>{plotly_js}</script>"
        f'<script type="application/json" id="figures">{data}</script>'
        f"<script>{_DRAW}</script></html>"
    )


def _matrices(cells: Sequence[Cell], place: figures.Place) -> str:
    return "<h2>Policy and scenario</h2>" + "".join(
        place(figures.matrix_figure(cells, title, figure))
        for title, figure in (
            ("Time to first token, p90, s", lambda one: one.ttft_s.p90),
            ("Average service difference", lambda one: one.difference and one.difference.average),
        )
    )


def _scenario(cells: list[Cell], place: figures.Place) -> str:
    scenario = cells[0].scenario
    several = any(cell.series.accumulated and max(cell.series.accumulated) for cell in cells)
    pictures = [
        figures.ttft_figure(cells),
        figures.bars_figure(cells, "Tokens per second", lambda one: one.throughput_tps),
    ]
    if any(cell.mean(lambda one: one.hit_ratio) for cell in cells):
        hits = figures.bars_figure(cells, "Prefix hit ratio", lambda one: one.hit_ratio)
        pictures.append(hits)
    if several:
        pictures.append(figures.accumulated_figure(cells))
    return (
        f"<h2>{html.escape(scenario.name)}</h2><p>{html.escape(scenario.about)}. Simulated.</p>"
        + _table(cells)
        + "".join(place(picture) for picture in pictures)
        + "".join(_over_time(cells, place))
    )


def _over_time(cells: Sequence[Cell], place: figures.Place) -> Iterator[str]:
    for cell in cells:
        yield (
            f"<details><summary>{html.escape(cell.policy.name)} over time</summary>"
            + place(figures.service_figure(cell))
            + place(figures.load_figure(cell))
            + "</details>"
        )


def _table(cells: Sequence[Cell]) -> str:
    header = "".join(f"<th>{html.escape(column.title)}" for column in COLUMNS)
    rows = "".join(
        f"<tr><td>{html.escape(cell.policy.name)}"
        + "".join(
            f"<td>{figure_text(cell.mean(column.figure), column.digits)}" for column in COLUMNS
        )
        for cell in cells
    )
    return f"<div class=wide><table><tr><th>policy{header}{rows}</table></div>"
