"""Figures as plain JSON: colours, labels, the objective, escaped names."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path

import plotly
import pytest

from dashboard.figures import DRAWN, THEMES, share_figure, ttft_figure
from dashboard.live.facts import FleetFacts, Series
from tests.dashboard.test_live_state import NOW, state, tenancy

STATIC = Path(__file__).resolve().parents[2] / "dashboard" / "static" / "dashboard"


def series(name: str = "Acme", position: int = 0, ttft_s: float = 0.2) -> Series:
    return Series(
        slug=name.lower(),
        name=name,
        position=position,
        at=tuple(NOW + 10 * n for n in range(6)),
        ttft_p50_s=(None, *(ttft_s,) * 5),
        share=(0.5,) * 6,
    )


def facts(*drawn: Series) -> FleetFacts:
    return replace(state().facts(tenancy()), series=drawn)


def test_a_figure_is_plain_json_in_milliseconds() -> None:
    figure = json.loads(json.dumps(ttft_figure(facts(series()), "light")))
    assert figure["data"][0]["y"] == [None, *[200.0] * 5]


@pytest.mark.parametrize("theme", THEMES)
def test_a_tenant_keeps_its_colour(theme: str) -> None:
    alone = ttft_figure(facts(series("Rival", 1)), theme)
    among = share_figure(facts(series("Acme", 0), series("Rival", 1)), theme)
    colour = THEMES[theme].series[1]
    assert alone["data"][0]["line"]["color"] == among["data"][1]["line"]["color"] == colour


def test_lines_are_labelled_at_their_end_without_overlap() -> None:
    figure = share_figure(facts(*(series(f"T{n}", n) for n in range(4))), "light")
    heights = [label["y"] for label in figure["layout"]["annotations"]]
    assert [label["text"] for label in figure["layout"]["annotations"]] == ["T0", "T1", "T2", "T3"]
    assert all(b - a >= 7 for a, b in itertools.pairwise(heights))
    assert figure["layout"]["showlegend"] is False


def test_the_objective_is_drawn_where_it_is_within_sight() -> None:
    def lines(ttft_s: float) -> int:
        return len(ttft_figure(facts(series(ttft_s=ttft_s)), "light")["layout"].get("shapes", ()))

    assert lines(1.5) == 1
    assert lines(0.1) == 0


def test_at_most_six_lines_are_drawn() -> None:
    many = [series(f"T{n}", n) for n in range(DRAWN + 5)]
    assert len(ttft_figure(facts(*many), "light")["data"]) == DRAWN


def test_a_name_with_markup_is_escaped() -> None:
    """S19: Plotly reads pseudo-HTML and links in labels and hover texts."""
    figure = ttft_figure(facts(series('<a href="javascript:alert(1)">x</a>')), "light")
    assert "<a" not in json.dumps(figure)


def test_the_stylesheet_and_the_figures_agree_on_colours() -> None:
    css = (STATIC / "css" / "tokens.css").read_text()
    for theme in THEMES.values():
        for n, colour in enumerate(theme.series, 1):
            assert f"--series-{n}: {colour};" in css


def test_the_placeholder_id_is_the_one_that_the_bundle_looks_for() -> None:
    """S18: without it plotly.js adds an inline style sheet that the CSP refuses."""
    script = (STATIC / "js" / "charts.js").read_text()
    placeholder = script.split('MAP_STYLE_ID = "')[1].split('"')[0]
    bundle = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
    assert f'getElementById("{placeholder}")' in bundle.read_text(encoding="utf-8")
