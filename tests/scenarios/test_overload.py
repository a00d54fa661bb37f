"""More is asked than can be done: goodput stays, the right calls are refused, and who is told when
to come back is served then. The load of the overload rows, in virtual time."""

from __future__ import annotations

import pytest

from benchmarks.overload import SEEDS, burst, first_returns, loaded, peak_of_returns, success
from benchmarks.overload_model import (
    BATCH,
    CAPACITY,
    INTERACTIVE,
    ONLY_INTERACTIVE,
    Outcome,
    OverloadModel,
)
from gateway.core.reasons import REASONS, Reason

SECONDS = 30.0
WARM_S = 5.0


@pytest.fixture(scope="module")
def once() -> Outcome:
    return loaded(1.0, SECONDS)


@pytest.fixture(scope="module")
def twice() -> Outcome:
    return loaded(2.0, SECONDS)


@pytest.fixture(scope="module")
def five_times() -> Outcome:
    return loaded(5.0, SECONDS)


def goodput(run: Outcome) -> float:
    return run.good_per_s(WARM_S, SECONDS)


def test_twice_the_load_keeps_goodput_and_interactive(once: Outcome, twice: Outcome) -> None:
    """Row 55."""
    assert goodput(twice) >= 0.9 * goodput(once)
    assert success(twice.of(INTERACTIVE, WARM_S)) >= 0.995


@pytest.mark.parametrize("seed", SEEDS)
def test_twice_the_load_leaves_interactive_its_first_token(seed: int) -> None:
    """Row 55, of each seed by itself; slots are kept free for it (``reserve``)."""
    once, twice = (loaded(times, SECONDS, seed=seed) for times in (1.0, 2.0))
    ratio = twice.ttft_s(INTERACTIVE, 0.99, WARM_S) / once.ttft_s(INTERACTIVE, 0.99, WARM_S)
    assert ratio <= 2.5


def test_five_times_the_load_keeps_goodput(once: Outcome, five_times: Outcome) -> None:
    """Row 56."""
    assert goodput(five_times) >= 0.8 * goodput(once)


def test_without_shedding_five_times_the_load_leaves_nothing(once: Outcome) -> None:
    """The naive rule: whoever fits into the queue may wait."""
    assert goodput(loaded(5.0, SECONDS, shed_wait_ratio=0.0)) < 0.2 * goodput(once)


def test_five_times_the_load_of_interactive_alone(once: Outcome) -> None:
    run = loaded(5.0, SECONDS, mix=ONLY_INTERACTIVE)
    assert goodput(run) >= 0.8 * goodput(once)
    assert run.refused(Reason.QUEUE_TIMEOUT) <= 0.01 * len(run.calls)


def test_no_interactive_call_is_shed_while_batch_runs_above_its_minimum(
    twice: Outcome, five_times: Outcome
) -> None:
    assert twice.refused(Reason.SHED, INTERACTIVE) == 0
    assert five_times.batch_when_shed
    assert max(five_times.batch_when_shed) == 0


def test_batch_keeps_its_minimum_while_interactive_needs_everything(five_times: Outcome) -> None:
    """R18: one of 20 dispatches, as long as batch waits."""
    done = [call for call in five_times.of(BATCH, WARM_S) if call.ended_s is not None]
    assert len(done) >= 0.8 * CAPACITY / 20 * (SECONDS - WARM_S)


def test_every_refusal_is_a_429(five_times: Outcome) -> None:
    """R11, R22."""
    refused = [call.refused for call in five_times.calls if call.refused is not None]
    assert {REASONS[refuse.reason].status for refuse in refused} == {429}
    assert all(1.0 <= (refuse.retry_after_s or 0.0) <= 60.0 for refuse in refused)


def test_tokens_are_served_at_capacity_during_the_burst(five_times: Outcome) -> None:
    """R11."""
    ended = [c for c in five_times.calls if c.ended_s is not None and c.ended_s >= WARM_S]
    assert len(ended) >= 0.95 * CAPACITY * (SECONDS - WARM_S)


def test_after_the_overload_everything_is_as_before() -> None:
    """Row 57, R23: no flag stays, no queue, no tail."""
    model = OverloadModel(lambda now_s: CAPACITY * (5.0 if now_s < 15.0 else 0.5))
    run = model.run_until(35.0)
    after = [call for call in run.of(INTERACTIVE, 20.0) if call.arrived_s < 33.0]
    assert all(call.refused is None for call in after)
    assert run.ttft_s(INTERACTIVE, 0.99, 20.0) <= 0.3
    assert model.pool.view().saturation_ratio <= 1.0


def test_first_returns_are_admitted_and_come_in_no_second_wave() -> None:
    run = burst(80.0)
    admitted, returned = first_returns(run)
    assert returned > 1_000
    assert admitted >= 0.95 * returned
    assert peak_of_returns(run) <= 1.2
