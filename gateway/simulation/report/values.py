"""The matrix as JSON values: every figure of every seed, and the lines of the first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from gateway.simulation.matrix import Cell

NOTE = "Simulated: engine models, no GPU ran. Figures show order and direction."


def json_values(cells: Sequence[Cell]) -> dict[str, Any]:
    return {"note": NOTE, "runs": [_run(cell) for cell in cells]}


def _run(cell: Cell) -> dict[str, Any]:
    return {
        "scenario": cell.scenario.name,
        "about": cell.scenario.about,
        "policy": cell.policy.name,
        "warm_up_s": cell.scenario.warm_up_s,
        "bound": cell.scenario.bound,
        "seeds": [
            {"seed": seed, **asdict(one), "goodput_ratio": one.goodput_ratio}
            for seed, one in zip(cell.seeds, cell.summaries, strict=True)
        ],
        "series": asdict(cell.series),
    }
