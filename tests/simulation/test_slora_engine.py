"""The S-LoRA loop."""

from __future__ import annotations

import random

import pytest

from gateway.simulation.engine import EngineRequest
from gateway.simulation.engines.slora import DECODE_MS, SloraConfig, SloraEngine


def engine(**config: int) -> SloraEngine:
    return SloraEngine(SloraConfig(**config))


def steps(
    model: SloraEngine, count: int = 10_000
) -> list[tuple[float, list[tuple[str, int, bool]]]]:
    """(end of the step, tokens) of the next steps, until there is nothing to do."""
    found, now_s = [], 0.0
    for _ in range(count):
        ends_s = model.begin(now_s)
        if ends_s is None:
            break
        now_s = ends_s
        tokens = [(one.request_id, one.number, one.last) for one in model.complete()]
        found.append((now_s, tokens))
    return found


def test_prefill_emits_the_first_token_and_decode_steps_the_rest() -> None:
    model = engine()
    model.submit(EngineRequest("a", 465, 3))
    (prefilled_s, first), (second_s, second), (_, third) = steps(model)
    assert (first, second, third) == ([("a", 1, False)], [("a", 2, False)], [("a", 3, True)])
    assert prefilled_s == pytest.approx(0.004 + 0.1)
    assert second_s - prefilled_s == pytest.approx(1.12 * 0.0345)


def test_newcomer_waits_for_ten_decode_steps_and_stops_the_others_while_it_is_prefilled() -> None:
    model = engine()
    model.submit(EngineRequest("a", 100, 100))
    steps(model, 1)
    model.submit(EngineRequest("b", 100, 2))
    told = [tokens for _, tokens in steps(model, 12)]
    assert all(tokens == [("a", number, False)] for number, tokens in enumerate(told[:10], 2))
    assert told[10] == [("b", 1, False)]
    assert told[11] == [("a", 12, False), ("b", 2, True)]


def test_first_that_does_not_fit_stops_the_admission() -> None:
    model = engine(kv_tokens=1_000)
    for name, output in (("a", 400), ("big", 800), ("small", 10)):
        model.submit(EngineRequest(name, 100, output))
    assert [token[0] for token in steps(model, 1)[0][1]] == ["a"]
    assert model.waiting == 2


def test_one_admission_takes_at_most_its_budget_of_prompts() -> None:
    model = engine(prefill_tokens=300)
    for name in "abcd":
        model.submit(EngineRequest(name, 100, 5))
    assert len(steps(model, 1)[0][1]) == 3


@pytest.mark.parametrize("seed", range(5))
def test_memory_is_never_exceeded_and_everyone_ends(seed: int) -> None:
    rng = random.Random(seed)
    model = engine(kv_tokens=2_000)
    wanted = {f"r{number}": rng.randint(1, 300) for number in range(60)}
    for name, output in wanted.items():
        model.submit(EngineRequest(name, rng.randint(1, 500), output))
    ended: dict[str, int] = {}
    now_s = 0.0
    while (ends_s := model.begin(now_s)) is not None:
        now_s = ends_s
        ended |= {one.request_id: one.number for one in model.complete() if one.last}
        assert model.kv_ratio <= 1.0
    assert ended == wanted
    assert (model.running, model.waiting) == (0, 0)


def test_cancelled_requests_leave_queue_and_batch() -> None:
    model = engine(kv_tokens=500)
    for name in "abc":
        model.submit(EngineRequest(name, 100, 200))
    steps(model, 1)
    model.cancel("a")
    model.cancel("c")
    assert {token[0] for _, tokens in steps(model) for token in tokens} == {"b"}


def test_decode_steps_are_those_of_the_profile() -> None:
    config = SloraConfig(decode_scalar=1.0)
    for batch, milliseconds in DECODE_MS:
        assert config.decode_s(batch) == pytest.approx(milliseconds / 1e3)
    assert config.decode_s(25) == pytest.approx(0.0366)
