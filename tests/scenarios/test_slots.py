"""The slot controller against a sweep of fixed slots, on the chunked engine model."""

from __future__ import annotations

import pytest

from tests.scenarios.slots_model import SlotsModel

TPOT_S = 0.025
SWEEP = (32, 64, 80, 88, 96, 256)
CONVERGED_S = 30.0


@pytest.fixture(scope="module")
def best() -> float:
    """Tokens per second within the objective, of the best number of slots."""
    return max(
        SlotsModel(slots, adaptive_slots=False).run_until(30.0).goodput_tps(15.0, 30.0, TPOT_S)
        for slots in SWEEP
    )


@pytest.mark.parametrize("seed", range(11, 16))
def test_it_finds_the_best_number_of_slots_in_thirty_seconds(seed: int, best: float) -> None:
    found = SlotsModel(32, seed=seed, tpot_objective_s=TPOT_S).run_until(60.0)
    assert found.goodput_tps(CONVERGED_S, 60.0, TPOT_S) >= 0.97 * best
    assert found.tpot_s(0.99, CONVERGED_S) <= TPOT_S


def test_by_tokens_alone_more_slots_always_look_better() -> None:
    """Why a pool without an objective per token never grows: every answer gets slower."""
    few, many = (SlotsModel(slots, adaptive_slots=False).run_until(30.0) for slots in (88, 256))
    assert many.goodput_tps(15.0, 30.0, 1.0) > few.goodput_tps(15.0, 30.0, 1.0)
    assert many.goodput_tps(15.0, 30.0, TPOT_S) == 0.0
    assert max(SlotsModel(32).run_until(20.0).limits) == 32


def test_it_never_goes_above_the_configured_slots_where_that_is_forbidden() -> None:
    model = SlotsModel(32, most_slots=0, tpot_objective_s=TPOT_S)
    assert max(model.run_until(20.0).limits) == 32
