"""Who is refused while memory or time is short."""

from __future__ import annotations

import pytest

from gateway.core.errors import Rejected
from gateway.core.priority import PriorityClass
from gateway.core.reasons import Reason
from gateway.core.stages import LOOP, MEMORY, Shortage, Stage, Stages


def taken(stages: Stages) -> list[str]:
    return [klass.label for klass in PriorityClass if not is_refused(stages, klass)]


def is_refused(stages: Stages, klass: PriorityClass) -> bool:
    try:
        stages.check(klass)
    except Rejected:
        return True
    return False


@pytest.mark.parametrize(("shortage", "retry_after_s"), [(MEMORY, 2.0), (LOOP, 1.0)])
def test_a_refusal_says_503_and_when_to_come_back(shortage: Shortage, retry_after_s: float) -> None:
    refusal = Stages(shortage).refusal()
    assert (refusal.reason, refusal.status) == (Reason.GATEWAY_FULL, 503)
    assert refusal.retry_after_s == retry_after_s


@pytest.mark.parametrize(
    ("used_ratio", "expected"),
    [
        (0.849, ["interactive", "standard", "batch"]),
        (0.85, ["interactive", "standard"]),
        (0.919, ["interactive", "standard"]),
        (0.92, ["interactive"]),
        (0.949, ["interactive"]),
        (0.95, []),
        (1.2, []),
    ],
)
def test_the_least_urgent_are_refused_first(used_ratio: float, expected: list[str]) -> None:
    """Row 19"""
    stages = Stages(MEMORY)
    stages.read(used_ratio)
    assert taken(stages) == expected


@pytest.mark.parametrize(
    ("stood_s", "expected"),
    [
        (0.24, ["interactive", "standard", "batch"]),
        (0.25, ["interactive", "standard"]),
        (2.0, ["interactive"]),
        (60.0, ["interactive"]),
    ],
)
def test_a_loop_that_stood_sends_the_least_urgent_away(stood_s: float, expected: list[str]) -> None:
    """Row 18"""
    stages = Stages(LOOP)
    stages.read(stood_s)
    assert taken(stages) == expected


def test_only_the_last_stage_refuses_before_a_call_is_read() -> None:
    stages = Stages(MEMORY)
    for used_ratio in (0.1, 0.86, 0.93):
        stages.read(used_ratio)
        stages.check_all()
    stages.read(0.95)
    with pytest.raises(Rejected):
        stages.check_all()


def test_stages_come_in_order_and_are_left_at_the_second_reading_below() -> None:
    """Row 19: order exact, recovery within two polls."""
    stages = Stages(MEMORY)
    seen = []
    for used_ratio in (0.5, 0.86, 0.93, 0.96, 0.5, 0.96, 0.93, 0.93, 0.5, 0.5):
        stages.read(used_ratio)
        seen.append(stages.stage)
    rising = [Stage.ALL, Stage.NO_BATCH, Stage.INTERACTIVE_ONLY, Stage.NOTHING]
    falling = [Stage.NOTHING, Stage.INTERACTIVE_ONLY, Stage.INTERACTIVE_ONLY, Stage.ALL]
    assert seen == [*rising, Stage.NOTHING, Stage.NOTHING, *falling]
