"""Settings of the pages. ``config.env`` fills them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Gt


@dataclass(frozen=True, slots=True)
class DashboardSettings:
    """Each field comes from FAIRWAY_DASHBOARD_<FIELD>."""

    history_s: Annotated[int, Gt(0)] = 900  # seconds of live history kept in memory
