"""The two live charts, as Plotly figures in plain JSON.

Built here, drawn by plotly.js. No legend, no mode bar: each line carries its tenant's name
at its end. A tenant keeps its colour on every page (its position modulo six, then a dash pattern).
At most ``DRAWN`` tenants are drawn, those with most calls to show; the table below has all of them.
Names are escaped because Plotly reads a little HTML. TTFT in milliseconds, shares in percent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import Any

import plotly.graph_objects as go

from dashboard.live.facts import FleetFacts, Series
from dashboard.numbers import duration, listed, percent

DRAWN = 6
DASHES = ("solid", "dash", "dot", "dashdot")
FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif'
LABEL_CHARACTERS = 14
LABELS_IN_HEIGHT = 14
LEAST_SPAN_S = 120
SECONDS_BELOW_S = 300  # shorter axes say the seconds
IN_SIGHT = 0.3  # of the objective: below, its line would flatten the others


@dataclass(frozen=True, slots=True)
class Theme:
    """The tokens of ``tokens.css`` that a chart needs."""

    ink: str
    muted: str
    line: str
    panel: str
    series: tuple[str, ...]


THEMES = {
    "light": Theme(
        "#16201b", "#5f6c65", "#e1e5e2", "#ffffff",
        ("#2257b8", "#b4500a", "#0b7a55", "#8b3fb0", "#b3261e", "#5b6b63"),
    ),
    "dark": Theme(
        "#e8efeb", "#929f98", "#26322c", "#151d19",
        ("#8ab4ff", "#f0975a", "#3fc592", "#cf9bea", "#ff8a80", "#9aa8a1"),
    ),
}  # fmt: skip

Value = Callable[[Series], Sequence[float | None]]
Span = tuple[float, float]


@dataclass(frozen=True, slots=True)
class _Axis:
    """What is drawn, how a point is read out, and about where the axis ends."""

    value: Value
    hover: str
    top: float


def ttft_figure(facts: FleetFacts, theme: str) -> dict[str, Any]:
    """Median TTFT per tenant and slice, with the objectives that are within sight."""
    highest = max((y for one in facts.series for y in _ttft_ms(one) if y is not None), default=0.0)
    seen = [one for one in facts.objectives if highest >= IN_SIGHT * one.ttft_s * 1e3]
    top = max([highest, *(one.ttft_s * 1e3 for one in seen)])
    figure = _figure(facts.series, THEMES[theme], _Axis(_ttft_ms, "%{y:,.0f} ms", top))
    for one in seen:
        muted = THEMES[theme].muted
        where = f", {listed(list(one.pools))}" if one.pools and len(facts.objectives) > 1 else ""
        figure.add_hline(
            y=one.ttft_s * 1e3,
            line={"color": muted, "width": 1, "dash": "dash"},
            annotation={
                "text": escape(f"SLO {duration(one.ttft_s)}{where}"),
                "font": {"size": 11, "color": muted},
            },
        )
    figure.update_yaxes(ticksuffix=" ms")
    return _plain(figure)


def share_figure(facts: FleetFacts, theme: str) -> dict[str, Any]:
    """Part of all service delivered in a slice that each tenant received."""
    figure = _figure(facts.series, THEMES[theme], _Axis(_share_percent, "%{y:.0f} %", 104.0))
    figure.update_yaxes(ticksuffix=" %", range=[0, 104])
    return _plain(figure)


def ttft_words(facts: FleetFacts) -> str:
    """The chart for those who do not see it."""
    told = [
        f"{one.name} {duration(last)}"
        for one in _drawn(facts.series, _ttft_ms)
        if (last := _last(one.ttft_p50_s)) is not None
    ]
    return f"Median TTFT, last value: {listed(told)}." if told else "No call had a first token."


def share_words(facts: FleetFacts) -> str:
    told = [
        f"{one.name} {percent(last)}"
        for one in _drawn(facts.series, _share_percent)
        if (last := _last(one.share)) is not None
    ]
    return f"Share received, last value: {listed(told)}." if told else "No service was delivered."


def _ttft_ms(one: Series) -> Sequence[float | None]:
    return [None if value is None else value * 1e3 for value in one.ttft_p50_s]


def _share_percent(one: Series) -> Sequence[float | None]:
    return [None if value is None else value * 100 for value in one.share]


def _last(values: Sequence[float | None]) -> float | None:
    return next((value for value in reversed(values) if value is not None), None)


def _drawn(series: Iterable[Series], value: Value) -> list[Series]:
    shown = [one for one in series if any(y is not None for y in value(one))]
    shown.sort(key=lambda one: sum(y is not None for y in value(one)), reverse=True)
    return sorted(shown[:DRAWN], key=lambda one: one.position)


def _figure(series: Iterable[Series], theme: Theme, axis: _Axis) -> go.Figure:
    figure = go.Figure()
    drawn = _drawn(series, axis.value)
    for one in drawn:
        colour = theme.series[one.position % len(theme.series)]
        figure.add_scatter(
            x=[_moment(at) for at in one.at],
            y=list(axis.value(one)),
            mode="lines",
            name=escape(one.name),
            line={"color": colour, "width": 1.8, "dash": _dash(one.position, theme)},
            hovertemplate=f"{escape(one.name)}: {axis.hover}<extra></extra>",
        )
    layout = _layout(theme, drawn, _span(drawn, axis))
    figure.update_layout(layout, annotations=_labels(drawn, theme, axis))
    return figure


def _dash(position: int, theme: Theme) -> str:
    return DASHES[position // len(theme.series) % len(DASHES)]


def _labels(drawn: list[Series], theme: Theme, axis: _Axis) -> list[dict[str, Any]]:
    """Names at the right end of the lines, pushed apart where lines end close together."""
    ends = [(last, one) for one in drawn if (last := _last(axis.value(one))) is not None]
    ends.sort(key=lambda end: end[0])
    step, least = axis.top / LABELS_IN_HEIGHT or 1.0, -axis.top
    labels = []
    for last, one in ends:
        least = max(last, least + step)
        labels.append(
            {
                "x": 1.0, "xref": "paper", "xanchor": "left", "xshift": 6,
                "y": least, "yref": "y", "yanchor": "middle",
                "text": escape(_short(one.name)), "showarrow": False,
                "font": {"size": 11, "color": theme.series[one.position % len(theme.series)]},
            }
        )  # fmt: skip
    return labels


def _short(name: str) -> str:
    return name if len(name) <= LABEL_CHARACTERS else f"{name[: LABEL_CHARACTERS - 1]}…"


def _span(drawn: list[Series], axis: _Axis) -> Span | None:
    """From the first point to the last, at least two minutes."""
    firsts = [
        at for one in drawn for at, y in zip(one.at, axis.value(one), strict=True) if y is not None
    ]
    if not firsts:
        return None
    last = drawn[0].at[-1]
    return min(min(firsts), last - LEAST_SPAN_S), last


# Room between the axis and its times, so that the first one does not touch the lowest value.
APART = {"ticks": "outside", "ticklen": 7, "tickcolor": "rgba(0,0,0,0)"}


def _layout(theme: Theme, drawn: list[Series], span: Span | None) -> dict[str, Any]:
    axis = {
        "gridcolor": theme.line,
        "zeroline": False,
        "fixedrange": True,
        "tickfont": {"size": 11, "color": theme.muted},
    }
    longest = max((len(_short(one.name)) for one in drawn), default=0)
    return {
        "template": None,
        "height": 220,
        "margin": {"l": 56, "r": 12 + 7 * longest, "t": 8, "b": 32},
        "paper_bgcolor": theme.panel,
        "plot_bgcolor": theme.panel,
        "font": {"family": FONT, "size": 12, "color": theme.ink},
        "showlegend": False,
        "hovermode": "x unified",
        "hoverlabel": {"bgcolor": theme.panel, "bordercolor": theme.line},
        "xaxis": axis | APART | {"showgrid": False, "nticks": 5, "tickangle": 0} | _time_axis(span),
        "yaxis": axis | {"rangemode": "tozero", "nticks": 5},
        "uirevision": "kept",
    }


def _time_axis(span: Span | None) -> dict[str, Any]:
    if span is None:
        return {}
    tickformat = "%H:%M:%S" if span[1] - span[0] < SECONDS_BELOW_S else "%H:%M"
    return {"range": [_moment(span[0]), _moment(span[1])], "tickformat": tickformat}


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _plain(figure: go.Figure) -> dict[str, Any]:
    plain: dict[str, Any] = figure.to_plotly_json()
    return plain
