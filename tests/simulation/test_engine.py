from __future__ import annotations

import random
from itertools import pairwise

import pytest

from gateway.simulation.engine import Emitted, Engine, EngineConfig, EngineRequest
from gateway.simulation.step_time import STEP_TIMES


def request(
    name: str, prompt: int = 32, output: int = 4, group: int | None = None
) -> EngineRequest:
    """``group``: requests of one group have equal prompts."""
    full = (prompt + output) // 16
    seed = hash(name) if group is None else group
    return EngineRequest(name, prompt, output, tuple(seed * 10_000 + n for n in range(full)))


def run(engine: Engine, until_s: float = 1e9) -> list[tuple[float, Emitted]]:
    """Every token with the time at which it comes."""
    now_s, tokens = 0.0, []
    while now_s < until_s and (ends_s := engine.begin(now_s)) is not None:
        now_s = ends_s
        tokens += [(now_s, emitted) for emitted in engine.complete()]
    return tokens


def test_request_emits_exactly_its_tokens_in_order() -> None:
    engine = Engine(EngineConfig())
    engine.submit(request("a", output=5))
    tokens = [emitted for _, emitted in run(engine)]
    assert [token.number for token in tokens] == [1, 2, 3, 4, 5]
    assert [token.last for token in tokens] == [False] * 4 + [True]
    assert (engine.running, engine.waiting, engine.cache.used_ratio) == (0, 0, 0.0)


@pytest.mark.parametrize(
    ("sequences", "context", "step_ms"),
    [(1, 1, 12.4), (32, 1_000, 14.8), (64, 2_000, 22.0), (128, 2_000, 32.0), (128, 4_000, 52.0)],
)
def test_decode_step_takes_what_the_published_table_says(
    sequences: int, context: int, step_ms: float
) -> None:
    """A100 with Llama-3-8B: milliseconds by batch and context."""
    times = STEP_TIMES["a100-llama-3-8b"]
    step_s = times.duration_s(sequences, sequences * context, 0.0)
    assert step_s * 1e3 == pytest.approx(step_ms, rel=0.12)


@pytest.mark.parametrize(("prompt", "total_ms"), [(1_000, 74), (4_000, 306), (8_000, 667)])
def test_prefill_takes_what_the_published_table_says(prompt: int, total_ms: float) -> None:
    engine = Engine(EngineConfig(step_tokens=8_192))
    engine.submit(request("a", prompt, 1))
    assert run(engine)[-1][0] * 1e3 == pytest.approx(total_ms, rel=0.05)


def test_batch_of_32_is_many_times_faster_than_one_by_one() -> None:
    alone, together = Engine(EngineConfig(sequences=1)), Engine(EngineConfig(sequences=32))
    for engine in (alone, together):
        for number in range(32):
            engine.submit(request(f"{number}", output=50))
    assert run(alone)[-1][0] > 15 * run(together)[-1][0]


def test_queue_is_first_come() -> None:
    engine = Engine(EngineConfig(sequences=2))
    for name in "abcd":
        engine.submit(request(name, output=3))
    firsts = [emitted.request_id for _, emitted in run(engine) if emitted.number == 1]
    assert firsts == list("abcd")


def test_step_never_exceeds_its_token_budget() -> None:
    engine = Engine(EngineConfig(step_tokens=100))
    for number in range(4):
        engine.submit(request(f"{number}", prompt=250, output=2))
    run(engine)
    prefill_steps = 4 * 250 / 100
    assert engine.counters.steps >= prefill_steps


def test_running_requests_decode_while_a_long_prompt_is_prefilled() -> None:
    engine = Engine(EngineConfig(step_tokens=256))
    engine.submit(request("chat", output=100))
    engine.begin(0.0)
    engine.complete()
    engine.submit(request("long", prompt=5_000, output=1))
    times_s = [at_s for at_s, token in run(engine) if token.request_id == "chat"]
    gaps_s = [b - a for a, b in pairwise(times_s)]
    assert max(gaps_s) < 0.05


def test_equal_prompt_is_reused_in_whole_blocks() -> None:
    engine = Engine(EngineConfig())
    engine.submit(request("cold", prompt=1_000, output=1, group=1))
    cold = run(engine)
    engine.submit(request("warm", prompt=1_000, output=1, group=1))
    warm = run(engine)
    assert cold[-1][1].cached_tokens == 0
    assert warm[-1][1].cached_tokens == 992
    assert warm[-1][0] < cold[-1][0] / 4


def test_prompt_that_is_cached_as_a_whole_still_computes_its_last_block() -> None:
    engine = Engine(EngineConfig())
    for name in ("cold", "warm"):
        engine.submit(request(name, prompt=160, output=1, group=1))
        tokens = run(engine)
    assert tokens[-1][1].cached_tokens == 144


def test_running_sequences_share_the_blocks_of_a_common_prefix() -> None:
    engine = Engine(EngineConfig())
    engine.submit(request("first", prompt=1_600, output=400, group=1))
    engine.begin(0.0)
    engine.complete()
    used = engine.cache.used_ratio
    for number in range(8):
        engine.submit(request(f"{number}", prompt=1_600, output=400, group=1))
    engine.begin(1.0)
    engine.complete()
    assert engine.cache.used_ratio < 1.2 * used


def test_small_kv_preempts_and_still_finishes_everything_once() -> None:
    engine = Engine(EngineConfig(kv_tokens=1_024, context_tokens=1_024))
    for number in range(8):
        engine.submit(request(f"{number}", prompt=100, output=200))
    tokens = [emitted for _, emitted in run(engine)]
    assert engine.counters.preemptions > 0
    for number in range(8):
        numbers = [token.number for token in tokens if token.request_id == f"{number}"]
        assert numbers == list(range(1, 201))
    assert engine.cache.used_ratio == 0.0


def test_cancelled_request_leaves_at_once_wherever_it_is() -> None:
    engine = Engine(EngineConfig(sequences=1))
    engine.submit(request("runs", output=1_000))
    engine.submit(request("waits"))
    engine.begin(0.0)
    engine.cancel("waits")
    engine.cancel("runs")
    assert (engine.running, engine.waiting, engine.cache.used_ratio) == (0, 0, 0.0)
    assert engine.complete() == []
    assert engine.begin(1.0) is None


def test_full_queue_rejects() -> None:
    engine = Engine(EngineConfig(sequences=1, queue_limit=2))
    assert [engine.submit(request(name)) for name in "abc"] == [True, True, False]
    assert engine.counters.rejections == 1


def test_counters_are_zero_sum_after_random_cancellations() -> None:
    """R5 at the engine."""
    rng = random.Random(5)
    engine = Engine(EngineConfig(kv_tokens=4_096, context_tokens=2_048))
    alive: set[str] = set()
    now_s = 0.0
    for number in range(2_000):
        name = f"{number}"
        engine.submit(request(name, rng.randint(1, 600), rng.randint(1, 60), rng.randint(1, 9)))
        alive.add(name)
        if rng.random() < 0.5:
            gone = rng.choice(sorted(alive))
            engine.cancel(gone)
            alive.discard(gone)
        ends_s = engine.begin(now_s)
        now_s = ends_s if ends_s is not None else now_s
        if engine.in_step:
            alive -= {token.request_id for token in engine.complete() if token.last}
        assert engine.running + engine.waiting == len(alive)
    for name in alive:
        engine.cancel(name)
    assert engine.cache.used_ratio == 0.0
