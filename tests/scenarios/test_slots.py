"""The slot controller against a sweep of fixed slots, on the chunked engine model."""

from __future__ import annotations

from tests.scenarios.slots_model import SlotsModel

TPOT_S = 0.025
SWEEP = (32, 64, 80, 88, 96, 256)
CONVERGED_S = 30.0


def test_it_finds_the_best_number_of_slots_in_thirty_seconds() -> None:
    best = max(
        SlotsModel(slots, adaptive_slots=False).run_until(30.0).goodput_tps(15.0, 30.0, TPOT_S)
        for slots in SWEEP
    )
    found = SlotsModel(32, most_slots=256, tpot_objective_s=TPOT_S).run_until(60.0)
    assert found.goodput_tps(CONVERGED_S, 60.0, TPOT_S) >= 0.97 * best
    assert found.tpot_s(0.99, CONVERGED_S) <= TPOT_S


def test_without_the_time_per_token_more_slots_always_look_better() -> None:
    """Why TTFT alone does not do: tokens per second still grow while every answer gets slower."""
    blind = SlotsModel(32, most_slots=256).run_until(40.0)
    assert blind.limits[-1] > 128
    assert blind.goodput_tps(30.0, 40.0, TPOT_S) == 0.0


def test_it_never_goes_above_the_configured_slots_unless_told() -> None:
    assert max(SlotsModel(32, tpot_objective_s=TPOT_S).run_until(20.0).limits) == 32
