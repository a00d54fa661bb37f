from __future__ import annotations

import random

import pytest

from gateway.core.estimates import BYTES_PER_TOKEN, START_OUTPUT_TOKENS, TokenEstimator
from gateway.wire.prompt.text import SCRIPTS


@pytest.fixture
def estimator() -> TokenEstimator:
    return TokenEstimator()


def estimated(estimator: TokenEstimator, prompt_bytes: int, tenant: str = "acme") -> int:
    return estimator.input_tokens("p", tenant, prompt_bytes=prompt_bytes, script="latin")


def test_every_script_class_of_the_wire_has_a_start() -> None:
    assert set(BYTES_PER_TOKEN) == set(SCRIPTS)


def test_input_starts_from_the_script_class(estimator: TokenEstimator) -> None:
    guesses = {
        script: estimator.input_tokens("p", "acme", prompt_bytes=1_000, script=script)
        for script in BYTES_PER_TOKEN
    }
    assert guesses["latin"] == 286
    assert guesses["dense"] == 667


def test_empty_prompt_is_one_token(estimator: TokenEstimator) -> None:
    assert estimated(estimator, 0) == 1


def test_reported_usage_removes_a_steady_error(estimator: TokenEstimator) -> None:
    """Base64 sent as prose: wrong by -63 % at first."""
    for _ in range(30):
        estimator.learn_input("p", "acme", prompt_bytes=1_500, input_tokens=1_000)
    assert estimated(estimator, 1_500) == pytest.approx(1_000, rel=0.05)


def test_tenants_and_pools_learn_apart(estimator: TokenEstimator) -> None:
    estimator.learn_input("p", "acme", prompt_bytes=1_000, input_tokens=1_000)
    estimator.learn_output("p", "acme", output_tokens=5)
    assert estimated(estimator, 1_000, tenant="other") == 286
    assert estimator.output_tokens("p", "other").mean == START_OUTPUT_TOKENS


def test_one_hostile_report_cannot_ruin_the_estimate(estimator: TokenEstimator) -> None:
    """Runs of blanks: 1,000 bytes per token."""
    estimator.learn_input("p", "acme", prompt_bytes=4_000, input_tokens=1_000)
    estimator.learn_input("p", "acme", prompt_bytes=1_000_000, input_tokens=1_000)
    assert estimated(estimator, 4_000) >= 400


def test_tiny_and_empty_prompts_teach_nothing(estimator: TokenEstimator) -> None:
    estimator.learn_input("p", "acme", prompt_bytes=4, input_tokens=30)
    estimator.learn_input("p", "acme", prompt_bytes=0, input_tokens=3_000)
    assert len(estimator) == 0


def test_first_output_estimate_is_256(estimator: TokenEstimator) -> None:
    start = estimator.output_tokens("p", "acme")
    assert (start.mean, start.p90) == (256, 256)


@pytest.mark.parametrize("scale", [20, 300, 3_000])
def test_output_p90_is_exceeded_by_one_call_in_ten(scale: int) -> None:
    estimator, rng = TokenEstimator(), random.Random(7)
    exceeded = 0
    for number in range(5_000):
        tokens = 1 + int(rng.expovariate(1 / scale))
        exceeded += number >= 1_000 and tokens > estimator.output_tokens("p", "acme").p90
        estimator.learn_output("p", "acme", output_tokens=tokens)
    assert exceeded / 4_000 == pytest.approx(0.1, abs=0.02)


def test_output_mean_follows_a_change(estimator: TokenEstimator) -> None:
    for tokens in [100] * 200 + [20] * 200:
        estimator.learn_output("p", "acme", output_tokens=tokens)
    assert estimator.output_tokens("p", "acme").mean == pytest.approx(20, abs=1)


def test_memory_is_bounded_and_the_least_recent_pair_goes() -> None:
    """R21."""
    small = TokenEstimator(pairs=100)
    for number in range(1_000):
        small.learn_output("p", f"t{number}", output_tokens=10)
    assert len(small) == 100
    assert small.output_tokens("p", "t0").mean == START_OUTPUT_TOKENS
    assert small.output_tokens("p", "t999").mean < START_OUTPUT_TOKENS
