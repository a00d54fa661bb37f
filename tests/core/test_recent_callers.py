"""Who else uses a pool, from two remembered callers."""

from __future__ import annotations

from gateway.core.health.callers import MEMORY_S, RecentCallers


def test_nobody_else_at_first() -> None:
    callers = RecentCallers()
    callers.seen("a", 0.0)
    assert not callers.others_than("a", 0.0)
    assert callers.others_than("b", 0.0)


def test_another_one_is_remembered_however_often_the_first_calls() -> None:
    callers = RecentCallers()
    callers.seen("b", 0.0)
    for second in range(100):
        callers.seen("a", float(second))
    assert callers.others_than("a", 100.0)


def test_another_one_is_forgotten_after_a_while() -> None:
    callers = RecentCallers()
    callers.seen("b", 0.0)
    callers.seen("a", 1.0)
    assert not callers.others_than("a", MEMORY_S + 1.0)
