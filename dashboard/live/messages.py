"""What a browser gets: panels as HTML, figures as JSON, only what changed since its last message.

Panels are the same templates that draw the page, so that a page and its updates cannot differ and
names are escaped in one place. A ``Moment`` is immutable and shared by all sockets of an audience.
Figures change once per slice and are kept until then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from django.template.loader import render_to_string

from dashboard import figures
from dashboard.live.audience import Audience, Operators
from dashboard.live.facts import FleetFacts
from dashboard.live.window import SLICE_S

FLEET_PANELS = (
    "sentence", "degraded", "tiles", "tenants", "pools", "incidents", "batches",
    "ttft_table", "share_table",
)  # fmt: skip
TENANT_PANELS = ("sentence", "tiles", "incidents", "batches", "ttft_table", "share_table")
FIGURES: Mapping[str, Callable[[FleetFacts, str], dict[str, Any]]] = {
    "ttft": figures.ttft_figure,
    "share": figures.share_figure,
}

Panels = Mapping[str, str]
Figures = Mapping[tuple[str, str], msgspec.Raw]  # by (figure, theme)


@dataclass(frozen=True, slots=True)
class Moment:
    """``seq`` grows by one; ``built_at`` is Unix seconds of the figures, None before any came."""

    seq: int
    facts: FleetFacts
    panels: Panels
    figures: Figures
    _encoded: dict[tuple[int, str], str] = field(default_factory=dict, compare=False, repr=False)

    def after(self, seen: Moment | None, theme: str, now_at: float) -> str:
        """The message for a browser that has ``seen`` (None: nothing)."""
        key = (seen.seq if seen else 0, theme)
        if key not in self._encoded:
            self._encoded[key] = self._encode(seen, theme)
        age_s = max(0.0, now_at - self.facts.at) if self.facts.at is not None else None
        return f'{{"age_s":{"null" if age_s is None else f"{age_s:.2f}"},{self._encoded[key]}'

    def _encode(self, seen: Moment | None, theme: str) -> str:
        panels = {
            name: html
            for name, html in self.panels.items()
            if seen is None or seen.panels.get(name) != html
        }
        drawn = {
            name: figure
            for (name, wanted), figure in self.figures.items()
            if wanted == theme and (seen is None or seen.figures.get((name, wanted)) is not figure)
        }
        body = {
            "seq": self.seq,
            "at": self.facts.at,
            "version": self.facts.config_version,
            "panels": panels,
            "figures": drawn,
        }
        return msgspec.json.encode(body).decode()[1:]


def panels(facts: FleetFacts, audience: Audience) -> Panels:
    """Renders the live parts of an audience's page. Takes milliseconds: not on the event loop."""
    is_fleet = isinstance(audience, Operators)
    context = {"facts": facts, "is_fleet": is_fleet}
    return {
        name: render_to_string(f"dashboard/live/{name}.html", context).strip()
        for name in (FLEET_PANELS if is_fleet else TENANT_PANELS)
    }


class FigureCache:
    """Per audience the figures of the newest slice."""

    def __init__(self) -> None:
        self._kept: dict[Audience, tuple[tuple[float, int], Figures]] = {}

    def figures(self, facts: FleetFacts, audience: Audience) -> Figures:
        newest = (facts.at or 0.0) // SLICE_S
        version = (newest, facts.tenancy_version)
        kept = self._kept.get(audience)
        if kept is None or kept[0] != version:
            kept = (version, _figures(facts))
            self._kept[audience] = kept
        return kept[1]

    def keep_only(self, audiences: frozenset[Audience]) -> None:
        self._kept = {a: kept for a, kept in self._kept.items() if a in audiences}


def _figures(facts: FleetFacts) -> Figures:
    return {
        (name, theme): msgspec.Raw(msgspec.json.encode(figure(facts, theme)))
        for name, figure in FIGURES.items()
        for theme in figures.THEMES
    }
