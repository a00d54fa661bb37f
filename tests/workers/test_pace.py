from __future__ import annotations

from workers.pace import Pace


def test_refusals_of_calls_that_were_under_way_together_count_once() -> None:
    pace = Pace(16)
    for _ in range(12):
        pace.refused(started_s=0.0, wait_s=1.0, now_s=5.0)
    assert pace.limit == 8
    pace.refused(started_s=7.0, wait_s=1.0, now_s=8.0)
    assert pace.limit == 4


def test_nothing_starts_before_the_moment_that_was_named() -> None:
    pace = Pace(4)
    pace.refused(started_s=0.0, wait_s=2.0, now_s=1.0)
    assert (pace.free(0, 2.9), pace.free(0, 3.0), pace.wait_s(2.0)) == (0, 2, 1.0)


def test_answers_bring_the_number_back() -> None:
    pace = Pace(8)
    pace.refused(started_s=0.0, wait_s=0.0, now_s=0.0)
    for expected in (5, 6, 7, 8, 8):
        pace.answered(pace.limit)
        assert pace.limit == expected


def test_one_line_always_may() -> None:
    pace = Pace(2)
    for now_s in range(10):
        pace.refused(started_s=float(now_s), wait_s=0.0, now_s=float(now_s))
    assert pace.free(0, 10.0) == 1
