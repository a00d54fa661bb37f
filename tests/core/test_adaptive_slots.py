"""A slot limit falls on evidence, climbs when used, and does neither without samples."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.core.dispatch.adaptive_slots import SlotLimit
from gateway.core.dispatch.effects import Failure
from gateway.core.dispatch.prefill_time import PrefillTime
from tests.core.factories import config

TPOT_S = 0.05


class Load:
    """Calls of 1,000 prompt tokens, ten a second, each 0.1 s to its first token."""

    def __init__(self, slots: int = 32, **changes: Any) -> None:
        values = {"tpot_objective_s": TPOT_S, **changes}
        self.limit = SlotLimit(config(**values), slots, 0.0)
        self.now_s = 0.0

    def run(
        self,
        seconds: float,
        *,
        ttft_s: float = 0.1,
        tpot_s: float | None = 0.045,
        failure: Failure | None = None,
        used: bool = True,
    ) -> int:
        for _ in range(round(10 * seconds)):
            self.now_s += 0.1
            self.limit.in_flight(self.limit.limit if used else 0)
            began_s = self.now_s - ttft_s
            if failure is None:
                self.limit.began(began_s, self.now_s, prompt_tokens=1_000, alone=True)
            self.limit.ended(began_s, self.now_s, tpot_s=tpot_s, failure=failure)
        return self.limit.limit


def test_it_starts_as_configured_and_stays_there_while_all_is_well() -> None:
    """R31: it does not collapse while measuring."""
    load = Load(most_slots=0)
    assert {load.run(2.0) for _ in range(50)} == {32}


def test_it_doubles_up_to_its_ceiling_while_answers_are_fast() -> None:
    load = Load()
    assert load.run(30.0, tpot_s=0.02) == 256


def test_without_an_objective_per_token_it_never_grows() -> None:
    """First tokens do not see how slow the others become."""
    assert Load(tpot_objective_s=None).run(60.0, tpot_s=0.02) == 32


def test_fixed_places_of_a_replica_are_its_ceiling() -> None:
    load = Load(4)
    load.limit.configured(4, fixed=True)
    assert load.run(60.0, tpot_s=0.02) == 4


def test_a_lower_ceiling_holds_at_once() -> None:
    load = Load()
    load.run(30.0, tpot_s=0.02)
    load.limit.config = config(tpot_objective_s=TPOT_S, most_slots=48)
    load.limit.configured(32)
    assert load.limit.limit == 48


def test_slow_answers_lower_it_and_fast_ones_raise_it_again() -> None:
    load = Load()
    lowered = load.run(3.0, tpot_s=0.06)
    assert lowered < 32
    assert load.run(60.0, tpot_s=0.02) > 32


def test_it_rests_just_below_its_objective() -> None:
    load = Load()
    load.run(3.0, tpot_s=0.06)
    assert len({load.run(2.0, tpot_s=0.047) for _ in range(20)}) == 1


def test_first_tokens_that_prefill_does_not_explain_lower_it() -> None:
    """Row 49: a replica that became three times slower."""
    load = Load(most_slots=0)
    load.run(4.0)
    assert load.run(10.0, ttft_s=1.5) < 32


def test_a_replica_that_stays_slower_is_believed_after_a_while() -> None:
    """R31, R23: the model follows, so the limit does not stay at the floor for ever."""
    load = Load(most_slots=0)
    load.run(4.0)
    load.run(60.0, ttft_s=1.5)
    assert load.run(120.0, ttft_s=1.5) == 32


def test_constant_timeouts_never_let_it_climb() -> None:
    """R31."""
    load = Load()
    seen = [load.run(2.0, failure=Failure.ERROR, tpot_s=None) for _ in range(30)]
    assert seen == sorted(seen, reverse=True)
    assert seen[-1] == 4


def test_rare_timeouts_without_ten_samples_lower_it_too() -> None:
    load = Load()
    for _ in range(3):
        load.now_s += 30.0
        load.limit.ended(load.now_s - 29.0, load.now_s, tpot_s=None, failure=Failure.ERROR)
    assert load.limit.limit < 32


def test_after_failures_it_regains_at_once_half_of_what_it_was_if_that_is_used() -> None:
    """Row 40: calls that hang now and then must not leave the replica at the floor."""
    load = Load(64, most_slots=0)
    load.run(12.0, failure=Failure.ERROR, tpot_s=None)
    assert load.limit.limit == 4
    assert load.run(10.0, used=False) == 4
    regained = load.run(10.0)
    assert 32 <= regained <= 34
    assert load.run(2.2) <= regained + 2


def test_a_single_failure_among_few_changes_nothing() -> None:
    load = Load(most_slots=0)
    load.run(0.3)
    load.now_s += 30.0
    load.run(0.1, ttft_s=29.0, failure=Failure.ERROR, tpot_s=None)
    assert load.run(4.0) == 32


def test_one_failure_among_many_changes_nothing() -> None:
    load = Load(most_slots=0)
    load.run(1.0)
    load.run(0.1, failure=Failure.ERROR, tpot_s=None)
    assert load.run(4.0) == 32


@pytest.mark.parametrize("signal", ["full", "kv", "preemption", "waiting"])
def test_every_other_signal_lowers_it_by_a_tenth(signal: str) -> None:
    load = Load()
    load.limit.sampled(0.5, 10)
    load.run(1.0)
    if signal == "full":
        load.run(0.1, failure=Failure.FULL, tpot_s=None)
    else:
        kv_ratio = 0.96 if signal == "kv" else 0.5
        waiting = 5 if signal == "waiting" else 4
        load.limit.sampled(kv_ratio, 11 if signal == "preemption" else 10, waiting)
    assert load.run(1.5) == 28


def test_without_samples_it_stands_still() -> None:
    load = Load()
    load.run(3.0, tpot_s=0.06)
    lowered = load.limit.limit
    load.now_s += 3_600.0
    assert load.limit.limit == lowered


def test_an_idle_replica_does_not_climb() -> None:
    load = Load()
    load.run(3.0, tpot_s=0.06)
    assert load.run(60.0, tpot_s=0.02, used=False) < 32


def test_the_floor_is_four_or_fewer_configured() -> None:
    assert Load(32).run(60.0, failure=Failure.ERROR, tpot_s=None) == 4
    assert Load(2).run(60.0, failure=Failure.ERROR, tpot_s=None) == 2


def test_changed_slots_begin_anew() -> None:
    load = Load()
    load.run(3.0, tpot_s=0.06)
    load.limit.configured(64)
    assert load.limit.limit == 64


class TestPrefillTime:
    def test_it_learns_floor_and_rate(self) -> None:
        model = PrefillTime()
        for number in range(50):
            tokens = 100 * (1 + number % 10)
            model.learn(tokens, 0.05 + tokens / 10_000)
        assert model.predicted_s(2_000) == pytest.approx(0.25, rel=0.01)

    def test_it_says_nothing_before_ten_samples(self) -> None:
        model = PrefillTime()
        for _ in range(9):
            model.learn(100, 0.1)
        assert model.predicted_s(100) is None

    def test_congestion_does_not_teach_it_that_slow_is_normal_at_once(self) -> None:
        model = PrefillTime()
        for _ in range(20):
            model.learn(100, 0.1)
        for _ in range(10):
            model.learn(100, 5.0)
        predicted_s = model.predicted_s(100)
        assert predicted_s is not None
        assert predicted_s < 0.2
