"""A running batch call is cut in its engine for an interactive one, and does its work again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gateway.core.priority import PriorityClass
from gateway.simulation.call import Outcome, SimulatedCall
from gateway.simulation.clients.workload import OpenLoop
from gateway.simulation.engines.fleet import FleetConfig, FleetEngine
from gateway.simulation.front import DispatcherFront
from gateway.simulation.scenario import open_pool
from gateway.simulation.simulator import Simulator

INTERACTIVE, _, BATCH = PriorityClass
ENGINES = {"r0": FleetConfig(sequences=2, tell_every=1)}
POOL = replace(
    open_pool(ENGINES, slots=2, kv_tokens=250_000), preempt_waste_ratio=1.0, adaptive_slots=False
)


def call(name: str, at_s: float, output: int, **changes: Any) -> SimulatedCall:
    return SimulatedCall(name, name[:4], at_s, 100, output, **changes)


CALLS = [
    call("earn", 0.0, 200, klass=BATCH),  # what is completed pays for what is wasted
    call("bulk-1", 6.0, 1_000, klass=BATCH),
    call("bulk-2", 6.0, 1_000, klass=BATCH),
    call("chat", 8.0, 10, klass=INTERACTIVE),
]


def outcomes(**changes: Any) -> tuple[dict[str, Outcome], FleetEngine]:
    engine = FleetEngine(ENGINES["r0"])
    front = DispatcherFront(replace(POOL, **changes), seed=1)
    run = Simulator({"r0": engine}, front, OpenLoop(CALLS), progress_every=1).run_until(1e6)
    return {one.call.call_id: one for one in run.outcomes}, engine


def test_interactive_starts_half_a_second_later_on_the_slot_of_a_batch_call() -> None:
    done, _ = outcomes()
    assert 0.5 <= done["chat"].ttft_s(0.0) <= 0.6
    waits, _ = outcomes(preemptions_per_call=0)
    assert waits["chat"].ttft_s(0.0) > 15.0


def test_the_cut_call_is_computed_again_from_its_start() -> None:
    done, engine = outcomes()
    cut = next(one for one in done.values() if one.preemptions)
    assert (cut.call.klass, cut.preemptions, cut.produced) == (BATCH, 1, 1_000)
    assert cut.wasted_tokens > 100 + 50  # its prompt, and what it had been given until then
    assert cut.first_token_s is not None
    assert cut.first_token_s > 8.5
    assert engine.counters.finished == len(done)
    assert engine.counters.prompt_tokens == (len(done) + 1) * 100


def test_without_preemption_nothing_is_computed_twice() -> None:
    done, engine = outcomes(preemptions_per_call=0)
    assert engine.counters.prompt_tokens == len(done) * 100
    assert sum(one.wasted_tokens for one in done.values()) == 0
