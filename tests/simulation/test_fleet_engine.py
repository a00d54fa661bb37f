"""The engine for large fleets tells what the engine that visits every request tells."""

from __future__ import annotations

import random

import pytest

from gateway.simulation.engine import Emitted, Engine, EngineConfig, EngineRequest
from gateway.simulation.engines.fleet import FleetConfig, FleetEngine
from gateway.simulation.engines.model import EngineModel
from gateway.simulation.step_time import STEP_TIMES

STEP = STEP_TIMES["a100-llama-3-8b"]
BLOCK = 8


def requests(rng: random.Random, number: int) -> list[tuple[float, EngineRequest]]:
    """Some share a prefix; arrivals in bursts."""
    found = []
    at_s = 0.0
    for index in range(number):
        at_s += rng.choice((0.0, rng.expovariate(25.0)))
        prompt, output = rng.randint(1, 200), rng.randint(1, 60)
        group = rng.randrange(5)
        shared = rng.randint(0, (prompt + output) // BLOCK)
        hashes = tuple(hash((group, block)) for block in range(shared))
        found.append((at_s, EngineRequest(f"r{index}", prompt, output, hashes)))
    return found


def timeline(
    engine: EngineModel, arrivals: list[tuple[float, EngineRequest]], gone: dict[str, float]
) -> list[tuple[float, str, int, bool, int]]:
    """(time, request, number, last, cached) of every token, in order."""
    told, now_s, ends_s = [], 0.0, None
    pending = sorted(
        [(at_s, 0, request) for at_s, request in arrivals]
        + [(at_s, 1, request_id) for request_id, at_s in gone.items()],
        key=lambda event: event[:2],
    )
    while pending or ends_s is not None:
        if ends_s is None or (pending and pending[0][0] < ends_s):
            now_s, kind, what = pending.pop(0)
            if kind == 0:
                assert isinstance(what, EngineRequest)
                engine.submit(what)
            else:
                engine.cancel(str(what))
        else:
            now_s = ends_s
            told += [_row(now_s, emitted) for emitted in engine.complete()]
            ends_s = None
        if not engine.in_step:
            ends_s = engine.begin(now_s)
    return sorted(told)


def _row(now_s: float, emitted: Emitted) -> tuple[float, str, int, bool, int]:
    return (
        round(now_s, 9),
        emitted.request_id,
        emitted.number,
        emitted.last,
        emitted.cached_tokens,
    )


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("kv_tokens", [100_000, 600])
def test_both_models_tell_the_same_tokens_at_the_same_times(seed: int, kv_tokens: int) -> None:
    """With 600 tokens of KV, requests are preempted and cached blocks evicted all the time."""
    rng = random.Random(seed)
    arrivals = requests(rng, 60)
    gone = {request.request_id: at_s + rng.random() for at_s, request in arrivals[::7]}
    plain = Engine(EngineConfig(STEP, 16, step_tokens=64, kv_tokens=kv_tokens, block_tokens=BLOCK))
    fast = FleetEngine(
        FleetConfig(STEP, 16, step_tokens=64, kv_tokens=kv_tokens, block_tokens=BLOCK, tell_every=1)
    )
    assert timeline(fast, arrivals, gone) == timeline(plain, arrivals, gone)
    assert fast.counters.preemptions == plain.counters.preemptions
    assert fast.counters.prefix_cache_hits == plain.counters.prefix_cache_hits


def test_small_memory_preempts_in_these_inputs() -> None:
    engine = Engine(EngineConfig(STEP, 16, step_tokens=64, kv_tokens=600, block_tokens=BLOCK))
    timeline(engine, requests(random.Random(0), 60), {})
    assert engine.counters.preemptions > 0


def test_tells_the_first_some_and_the_last_token() -> None:
    engine = FleetEngine(FleetConfig(tell_every=16))
    told = timeline(engine, [(0.0, EngineRequest("a", 500, 40))], {})
    assert [row[2] for row in told] == [1, 16, 32, 40]


def test_memory_is_free_when_nothing_runs() -> None:
    engine = FleetEngine(FleetConfig(block_tokens=BLOCK, kv_tokens=2_000))
    timeline(engine, requests(random.Random(3), 40), {})
    assert (engine.running, engine.waiting, engine.kv_ratio) == (0, 0, 0.0)
