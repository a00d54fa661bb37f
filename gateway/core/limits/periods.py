"""Which day or month is it, and when does it end? Always UTC: no clock change repeats an hour.

The wall clock only names periods. Nothing is ever reset: a new period is a new bucket.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta


@dataclass(frozen=True, slots=True)
class Period:
    """``name``: ``2026-11-30`` or ``2026-11``. ``ends_in_s`` > 0, wall-clock seconds."""

    name: str
    ends_in_s: float


def day_of(wall_s: float) -> Period:
    now = datetime.fromtimestamp(wall_s, UTC)
    start = now.replace(hour=0, minute=0, second=0, microsecond=0)
    return Period(f"{start:%Y-%m-%d}", (start + timedelta(days=1) - now).total_seconds())


def month_of(wall_s: float) -> Period:
    now = datetime.fromtimestamp(wall_s, UTC)
    start = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    following = (start + timedelta(days=31)).replace(day=1)
    return Period(f"{start:%Y-%m}", (following - now).total_seconds())


PERIODS = {"day": day_of, "month": month_of}
