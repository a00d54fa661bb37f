"""Settings of the pages. ``config.env`` fills them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Gt


@dataclass(frozen=True, slots=True)
class DashboardSettings:
    """Each field comes from FAIRWAY_DASHBOARD_<FIELD>. Seconds."""

    history_s: Annotated[int, Gt(0)] = 900  # live history kept in memory and drawn in charts
    recent_s: Annotated[int, Gt(0)] = 300  # what the figures of tables and tiles cover
    access_recheck_s: Annotated[float, Gt(0)] = 8.0  # how soon a revoked session's socket closes
    ttft_objective_s: Annotated[float, Gt(0)] = 2.0  # the line in the TTFT chart
