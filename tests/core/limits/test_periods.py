from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from gateway.core.limits.periods import day_of, month_of


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("moment", "day", "month"),
    [
        ("2026-12-31T23:59:59", "2026-12-31", "2026-12"),
        ("2027-01-01T00:00:00", "2027-01-01", "2027-01"),
        ("2028-02-29T12:00:00", "2028-02-29", "2028-02"),
        ("2027-02-28T23:59:59", "2027-02-28", "2027-02"),
        ("2026-03-29T01:30:00", "2026-03-29", "2026-03"),
    ],
)
def test_periods_are_named_in_utc(moment: str, day: str, month: str) -> None:
    """Row 78: year end, leap day, the hour that local clocks skip."""
    assert (day_of(at(moment)).name, month_of(at(moment)).name) == (day, month)


@pytest.mark.parametrize("start", ["2026-12-31", "2028-02-28", "2026-03-28", "2026-10-24"])
def test_each_boundary_is_crossed_exactly_once(start: str) -> None:
    """Row 78: hour by hour over 72 hours there are three days, each of 24 hours."""
    begin = at(start)
    names = [day_of(begin + hour * 3_600).name for hour in range(72)]
    assert names == sorted(names)
    assert len(set(names)) == 3
    assert all(names.count(name) == 24 for name in set(names))


@pytest.mark.parametrize("period_of", [day_of, month_of])
def test_end_of_a_period_is_the_start_of_the_next(period_of: object) -> None:
    assert callable(period_of)
    now = at("2026-01-15T10:00:00")
    for _ in range(30):
        period = period_of(now)
        following = now + period.ends_in_s
        assert period_of(following - 0.001).name == period.name
        assert period_of(following).name != period.name
        now = following


def test_leap_february_has_29_days() -> None:
    assert month_of(at("2028-02-01T00:00:00")).ends_in_s == timedelta(days=29).total_seconds()
